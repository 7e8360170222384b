"""The tokenizers of two checkpoints: entries, ids over hard texts, special tokens, chat template."""

from openmodelatlas.errors import AtlasError
from openmodelatlas.infer.tokenizer import tokenizer_forms
from openmodelatlas.records.findings import finding
from openmodelatlas.records.report import Finding
from openmodelatlas.text.tokenizer import Tokenizer
from openmodelatlas.verify.tokenizer_texts import compare_forms
from openmodelatlas.weights.identify import identify
from openmodelatlas.weights.opened import Opened


def compare_tokenizers(original: Opened, conversion: Opened) -> tuple[list[Finding], str]:
    """The findings, and in words what was compared. A side without a tokenizer that can be built is said, and is the
    fault of that side's own checks."""
    sides = []
    for opened, words in ((original, "the original"), (conversion, "the conversion")):
        tokenizer = tokenizer_of(opened)
        if tokenizer is None:
            return [], f"tokenizers not compared: {words} brings none that can be built"
        sides.append(tokenizer)
    first, second = sides
    found = [
        finding("against.tokenizer", flaw.where, expected=flaw.expected, found=flaw.found)
        for flaw in compare_forms(first, second)
    ]
    found += _special(first, second)
    template = "the same chat template" if first.chat_template == second.chat_template else "another chat template"
    return found, f"tokenizers compared: {first.form} and {second.form}; {template}; {_ends(first, second)}"


def tokenizer_of(opened: Opened) -> Tokenizer | None:
    """The tokenizer that is used to run it, if it has one that can be built."""
    try:
        identity = identify(opened.header, opened.scheme)
        return tokenizer_forms(opened, identity.nearest if identity.matches else None).tokenizer()
    except AtlasError:
        return None


def _special(first: Tokenizer, second: Tokenizer) -> list[Finding]:
    a, b = first.special, second.special
    rows: list[tuple[str, object, object]] = [
        ("beginning of text", a.bos, b.bos),
        ("a beginning is added", a.add_bos, b.add_bos),
    ]
    if a.eos and b.eos and not a.eos & b.eos:
        rows.append(("ends of text", sorted(a.eos), sorted(b.eos)))
    return [
        finding("against.tokenizer", what, expected=here, found=there) for what, here, there in rows if here != there
    ]


def _ends(first: Tokenizer, second: Tokenizer) -> str:
    """Formats keep a different number of ends, so that one in common is enough."""
    ends = [sorted(tokenizer.special.eos) for tokenizer in (first, second)]
    return f"both end at {ends[0]}" if ends[0] == ends[1] else f"one ends at {ends[0]}, the other at {ends[1]}"
