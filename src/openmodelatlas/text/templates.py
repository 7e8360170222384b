"""The chat templates of a checkpoint, wherever its files keep them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openmodelatlas.errors import CheckpointError
from openmodelatlas.text.huggingface import CONFIG, json_object

DEFAULT = "default"
ALONE, IN_JSON, KEY = "chat_template.jinja", "chat_template.json", "chat_template"
GGUF_KEY = "tokenizer.chat_template"


@dataclass(frozen=True, kw_only=True)
class Template:
    """A template and the place it was found at."""

    where: str
    name: str
    text: str


def templates(beside: Mapping[str, bytes], metadata: Mapping[str, Any]) -> list[Template]:
    """Every template, in the order in which programs prefer them. CheckpointError for one that is no text."""
    found = []
    if ALONE in beside:
        try:
            found.append(Template(where=ALONE, name=DEFAULT, text=beside[ALONE].decode()))
        except UnicodeDecodeError as error:
            found_ = f"byte {error.start} is not"
            raise CheckpointError(
                "not UTF-8", where=ALONE, found=found_, expected="UTF-8", code="template.damaged"
            ) from None
    for name in (IN_JSON, CONFIG):
        found += _of(json_object(beside, name).get(KEY), name)
    for key, value in metadata.items():
        if key == GGUF_KEY:
            found += _of(value, key)
        elif key.startswith(f"{GGUF_KEY}.") and isinstance(value, str):
            found.append(Template(where=key, name=key.removeprefix(f"{GGUF_KEY}."), text=value))
    return found


def _of(value: Any, where: str) -> list[Template]:
    """A template, or a list of named ones."""
    if value is None:
        return []
    if isinstance(value, str):
        return [Template(where=where, name=DEFAULT, text=value)]
    rows = value if isinstance(value, list) else [value]
    found = []
    for row in rows:
        if (
            not isinstance(row, dict)
            or not isinstance(row.get("name"), str)
            or not isinstance(row.get("template"), str)
        ):
            raise CheckpointError(
                "not a chat template", where=where, expected="text, or a list of names with templates",
                found=type(row).__name__, code="template.damaged",
            )  # fmt: skip
        found.append(Template(where=where, name=row["name"], text=row["template"]))
    return found


def default(found: list[Template]) -> Template | None:
    """The one that renders a conversation if no other is asked for."""
    return next((template for template in found if template.name == DEFAULT), None)
