"""`oma run`: generate text with a checkpoint."""

import argparse
import io
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openmodelatlas.models.variant import Variant
    from openmodelatlas.text.tokenizer import Tokenizer

HELP = "generate text with a checkpoint"


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("checkpoint", metavar="PATH|NAME", help="a .gguf file, or a checkpoint that `oma pull` fetched")
    parser.add_argument("prompt", help="the text to go on from")
    parser.add_argument("--chat", action="store_true", help="ask it as a user's message, by the chat template")
    parser.add_argument("--max-tokens", type=_count, default=128, metavar="N", help="at most N new tokens (128)")
    parser.add_argument("--temperature", type=_temperature, default=0.0, metavar="T", help="0: the likeliest token (0)")
    parser.add_argument("--seed", type=_count, default=0, metavar="N", help="for a temperature above 0 (0)")
    parser.add_argument("--dtype", choices=("float32", "bfloat16", "float64"), default="float32", help="to compute in")
    parser.add_argument("--fused", action="store_true", help="fused attention: faster, equal within rounding")


def _count(text: str) -> int:
    value = int(text)
    if not 0 <= value < 1 << 63:
        raise argparse.ArgumentTypeError("must be 0 or more")
    return value


def _temperature(text: str) -> float:
    value = float(text)
    if not 0.0 <= value < float("inf"):
        raise argparse.ArgumentTypeError("must be 0 or more")
    return value


def run(args: argparse.Namespace) -> int:
    """Text on stdout as it is made; one line of figures on stderr."""
    from openmodelatlas.cli.progress import Show
    from openmodelatlas.errors import InputError
    from openmodelatlas.infer.checkpoint import DTYPES, load_checkpoint
    from openmodelatlas.infer.fuse import fuse
    from openmodelatlas.infer.generate import check_prompt, generate
    from openmodelatlas.text.chat import apply_template
    from openmodelatlas.verify.target import resolve

    if not args.prompt:
        raise InputError("empty prompt", fix="give some text to go on from")
    target = resolve(args.checkpoint)
    prompt: list[int] = []

    def ready(tokenizer: "Tokenizer", variant: "Variant") -> None:
        if args.chat:
            text = apply_template(tokenizer, [{"role": "user", "content": args.prompt}])
            prompt.extend(tokenizer.encode_rendered(text))  # the template may write its own beginning
        else:
            prompt.extend(tokenizer.encode(args.prompt))
        check_prompt(prompt, variant.config.max_position_embeddings, tokenizer.vocab_size)

    show = Show()
    try:
        loaded = load_checkpoint(target.path, dtype=DTYPES[args.dtype], ready=ready, progress=show)
    finally:
        show.close()
    if args.fused:
        fuse(loaded.model)
    tokenizer = loaded.tokenizer
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that knows few characters must not end the run
    stream, count, start, first = tokenizer.stream(), 0, time.perf_counter(), 0.0
    for token in generate(
        loaded.model,
        prompt,
        max_tokens=args.max_tokens,
        temperature=args.temperature,
        seed=args.seed,
        stop=tokenizer.special.eos,
    ):
        count += 1
        first = first or time.perf_counter()
        sys.stdout.write(stream.push(token))
        sys.stdout.flush()
    end = time.perf_counter()
    print(stream.finish(), flush=True)
    pace = f"{(count - 1) / (end - first):.1f} tokens/s" if count > 1 else "no pace"
    waited = f"first after {(first or end) - start:.2f} s"
    print(
        f"{loaded.variant.name}, {args.dtype}: {len(prompt)} prompt tokens, {count} new, {waited}, then {pace}",
        file=sys.stderr,
    )
    return 0
