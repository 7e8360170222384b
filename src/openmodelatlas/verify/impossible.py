"""Settings that no table holds to a value, with values that no program can take: ids of no token, names of no type."""

from typing import Any

from openmodelatlas.records.findings import finding
from openmodelatlas.records.report import Finding
from openmodelatlas.records.shown import shown
from openmodelatlas.weights.opened import Opened
from openmodelatlas.weights.settings import printable

PADDING, ROLES = "pad_token_id", ("bos_token_id", "eos_token_id")
SIZE, TYPE = "vocab_size", ("dtype", "torch_dtype")
SECTIONS = ("", "text_config.")
TOKENIZERS = ("tokenizer.json", "tokenizer.model")
NO_PADDING = -1
"""What the first Llama files say."""
TYPES = (
    "auto", "bfloat16", "float16", "float32", "float64", "half", "float", "float8_e4m3fn", "float8_e5m2", "int8",
    "uint8",
)  # fmt: skip


def impossible(opened: Opened) -> list[Finding]:
    """Of beginnings and ends the check of the tokenizer says so, if there is one."""
    settings = opened.header.metadata
    names = (PADDING,) if any(name in opened.beside for name in TOKENIZERS) else (PADDING, *ROLES)
    found = []
    for section in SECTIONS:
        size = settings.get(section + SIZE)
        for key in (section + name for name in names):
            value = settings.get(key)
            if type(size) is int and not _token(key, value, size):
                expected = f"an id below {size:,}"
                found.append(finding("configuration.token-id", shown(key), expected=expected, found=printable(value)))
        for key in (section + name for name in TYPE):
            value = settings.get(key)
            if value is not None and (not isinstance(value, str) or value.removeprefix("torch.") not in TYPES):
                expected = ", ".join(TYPES)
                found.append(finding("configuration.type", shown(key), expected=expected, found=printable(value)))
    return found


def _token(key: str, value: Any, size: int) -> bool:
    """Whether it is an id, several where a key may have them, or none."""
    ids = value if isinstance(value, list) and not key.endswith(PADDING) else [value]
    lowest = NO_PADDING if key.endswith(PADDING) else 0
    return value is None or all(type(number) is int and lowest <= number < size for number in ids)
