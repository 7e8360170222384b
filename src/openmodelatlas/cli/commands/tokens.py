"""`oma tokens`: what a checkpoint's tokenizer makes of a text."""

import argparse
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from openmodelatlas.text.tokenizer import Tokenizer

HELP = "show the tokens that a text becomes: ids, pieces, bytes, and what begins it"
STDIN = "-"


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument(
        "target", metavar="PATH|NAME", help="a checkpoint, a folder or file of a tokenizer, or hf:ORG/NAME"
    )
    parser.add_argument("text", help="the text, or - to read it from stdin")
    parser.add_argument("--literal", action="store_true", help="names of control tokens are text like any other")
    parser.add_argument(
        "--bos", action=argparse.BooleanOptionalAction, default=None,
        help="put the beginning before the text, or not (default: as the checkpoint says)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print it as JSON")


def run(args: argparse.Namespace) -> int:
    """A line for each token, then what was done."""
    import json

    from openmodelatlas.errors import InputError
    from openmodelatlas.infer.tokenizer import tokenizer_at
    from openmodelatlas.verify.target import resolve

    text = _stdin() if args.text == STDIN else args.text
    tokenizer = tokenizer_at(resolve(args.target).path)
    if args.bos and tokenizer.special.bos is None:
        raise InputError("the tokenizer has no beginning", where=args.target, fix="leave --bos out")
    ids = tokenizer.encode(text, add_bos=args.bos, literal=args.literal)
    rows = [_row(tokenizer, number) for number in ids]
    beginning = _beginning(tokenizer, args.bos)
    if args.json:
        found = {
            "tokenizer": tokenizer.form,
            "vocabulary": tokenizer.vocab_size,
            "control_names": "text" if args.literal else "control",
            "beginning": beginning,
            "notes": list(tokenizer.notes),
            "tokens": rows,
            "decoded": tokenizer.decode(ids, special=True),
        }
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return 0
    _print(rows)
    count = "1 token" if len(ids) == 1 else f"{len(ids)} tokens"
    print(f"{count} of {tokenizer.form}, {tokenizer.vocab_size:,} ids; beginning: {beginning}")
    names = "text (--literal)" if args.literal else "control tokens; --literal takes them as text"
    print(f"names of control tokens are {names}")
    for note in tokenizer.notes:
        print(f"note: {note}")
    return 0


def _stdin() -> str:
    """All of stdin. InputError for bytes that are no text."""
    from openmodelatlas.errors import InputError
    from openmodelatlas.text.tokenizer import LONGEST_PROMPT

    raw = sys.stdin.buffer.read(4 * LONGEST_PROMPT + 1)
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise InputError("the text is not UTF-8", where="stdin", found=f"byte {error.start} is not") from None


def _row(tokenizer: "Tokenizer", number: int) -> dict[str, Any]:
    raw = tokenizer.piece(number, special=True)
    kind = "control" if number in tokenizer.vocabulary.control else "text"
    return {"id": number, "kind": kind, "entry": tokenizer.tokens[number], "bytes": raw.hex(" ")}


def _beginning(tokenizer: "Tokenizer", asked: bool | None) -> str:
    """What was done about the beginning, and why."""
    bos = tokenizer.special.bos
    if bos is None:
        return "the tokenizer has none"
    name = f"{bos} {tokenizer.tokens[bos]}"
    if asked is not None:
        return f"{name} {'added' if asked else 'not added'}, as asked"
    return f"{name} {'added' if tokenizer.special.add_bos else 'not added'}, as the checkpoint says"


def _print(rows: list[dict[str, Any]]) -> None:
    """Ids, what is special, pieces and bytes in columns."""
    from openmodelatlas.records.shown import shown

    pieces = [shown(bytes.fromhex(row["bytes"]).decode(errors="replace")) for row in rows]
    widest = min(max(map(len, pieces), default=0), 40)
    digits = max((len(str(row["id"])) for row in rows), default=0)
    for row, piece in zip(rows, pieces, strict=True):
        mark = "*" if row["kind"] == "control" else " "
        print(f"{row['id']:>{digits}} {mark} {piece:<{widest}}  {row['bytes']}")
