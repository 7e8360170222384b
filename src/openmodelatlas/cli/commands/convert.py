"""`oma convert`: write a checkpoint anew in another format."""

import argparse
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openmodelatlas.verify.convert import Wanted

HELP = "write a checkpoint anew in another format, held against the original before it gets its name"
AS_STORED = "as-stored"
UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("source", metavar="PATH|NAME", help="a file, a folder, or a checkpoint that `oma pull` fetched")
    parser.add_argument("-o", "--output", required=True, metavar="TARGET", help="a file FILE.gguf, or a folder")
    parser.add_argument("--to", metavar="FORMAT", help="huggingface, gguf or meta (default: from the target's name)")
    parser.add_argument(
        "--dtype",
        default=AS_STORED,
        metavar="TYPE",
        help="float32, bfloat16, float16, or as-stored: plain numbers as they are, others in float32 (the default)",
    )
    parser.add_argument("--type", metavar="TYPE", help="quantise the matrices of a GGUF file, such as Q8_0")
    parser.add_argument("--shard-size", metavar="SIZE", help="the longest safetensors file, such as 5GB (the default)")
    parser.add_argument(
        "--ranks", type=int, metavar="N", help="share Meta's files out over so many devices (default: 1)"
    )
    parser.add_argument("--model", metavar="MODEL", help="which model it is, where the source does not tell")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NUMBER=VALUE",
        help="a number of the model that the source does not state, such as max_position_embeddings=4096",
    )
    parser.add_argument("--no-tokenizer", action="store_true", help="leave the tokenizer out")
    parser.add_argument("--force", action="store_true", help="replace a checkpoint that stands at the target")


def run(args: argparse.Namespace) -> int:
    """The path on stdout, everything else on stderr."""
    from openmodelatlas.cli.endings import end_like_interrupt
    from openmodelatlas.cli.progress import Show
    from openmodelatlas.verify.convert import convert
    from openmodelatlas.verify.target import resolve

    wanted = _wanted(args)
    source = resolve(args.source).path
    end_like_interrupt()
    show = Show()
    try:
        done = convert(source, args.output, wanted, force=args.force, progress=show)
    finally:
        show.close()
    for line in (f"{done.model}: {done.source} to {done.scheme}", *done.notes, f"against the source: {done.compared}"):
        print(line, file=sys.stderr)
    print(done.path)
    return 0


def _wanted(args: argparse.Namespace) -> "Wanted":
    from openmodelatlas.errors import UsageError
    from openmodelatlas.verify.convert import DTYPES, SHARD_SIZE, Wanted, scheme_of

    scheme = scheme_of(Path(args.output), args.to)
    if args.dtype != AS_STORED and args.dtype not in DTYPES:
        raise UsageError("--dtype", expected=", ".join((*DTYPES, AS_STORED)), found=args.dtype)
    if args.type is not None and scheme != "gguf":
        raise UsageError("--type is for GGUF files", found=f"--to {scheme}")
    if args.shard_size is not None and scheme != "huggingface":
        raise UsageError("--shard-size is for safetensors", found=f"--to {scheme}")
    if args.ranks is not None and scheme != "meta":
        raise UsageError("--ranks is for Meta's files", found=f"--to {scheme}")
    numbers = {}
    for text in args.set:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError("--set", expected="NUMBER=VALUE", found=text)
        numbers[name] = value
    return Wanted(
        scheme=scheme,
        dtype=DTYPES.get(args.dtype),
        quantised=None if args.type is None else args.type.upper(),
        shard_size=SHARD_SIZE if args.shard_size is None else _size(args.shard_size),
        ranks=1 if args.ranks is None else args.ranks,
        tokenizer=not args.no_tokenizer,
        model=args.model,
        numbers=numbers,
    )


def _size(text: str) -> int:
    from openmodelatlas.errors import UsageError

    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmg]?i?)b?", text.strip().lower())
    size = int(float(match[1]) * UNITS[match[2]]) if match and match[2] in UNITS else 0
    if size < 1:
        raise UsageError("--shard-size", expected="a size such as 5GB or 500MB", found=text)
    return size
