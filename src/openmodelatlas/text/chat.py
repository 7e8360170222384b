"""A conversation as one prompt, by the checkpoint's own chat template.

A template is a program from a stranger. It runs in jinja2's immutable sandbox, and that in a process of its own with
little memory and time: the sandbox alone stops no endless loop and no string of a gigabyte.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from openmodelatlas.errors import AtlasError, CheckpointError, InputError
from openmodelatlas.text.tokenizer import Tokenizer

LONGEST_TEMPLATE = 1 << 17  # characters
LONGEST_RESULT = 1 << 22
SECONDS = 20


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """What is rendered: `messages` (of `role` and `content`), whether the assistant's turn is opened, and what the
    template is given besides."""

    messages: Sequence[Mapping[str, str]]
    generation: bool = True
    variables: Mapping[str, str] = field(default_factory=dict)


def apply_template(tokenizer: Tokenizer, messages: Sequence[dict[str, str]]) -> str:
    """The prompt for `messages` (dicts of `role` and `content`), open for the assistant's turn."""
    template = tokenizer.chat_template
    if template is None:
        raise InputError("the checkpoint has no chat template", fix="run it without --chat")
    (rendered,) = render_all(tokenizer, template, [Conversation(messages=messages)])
    if isinstance(rendered, AtlasError):
        raise rendered
    return rendered


def render_all(
    tokenizer: Tokenizer, template: str, conversations: Sequence[Conversation]
) -> list[str | CheckpointError]:
    """Each conversation as one text, or why there is none. CheckpointError if the template had to be stopped."""
    if len(template) > LONGEST_TEMPLATE:
        raise CheckpointError(
            "the chat template is too long",
            expected=f"at most {LONGEST_TEMPLATE} characters",
            found=len(template),
            code="template.fails",
        )
    bos, eos = tokenizer.special.bos, min(tokenizer.special.eos, default=None)
    jobs = [
        {
            "template": template,
            "messages": [dict(message) for message in conversation.messages],
            "bos_token": "" if bos is None else tokenizer.tokens[bos],
            "eos_token": "" if eos is None else tokenizer.tokens[eos],
            "generation": conversation.generation,
            "variables": dict(conversation.variables),
            "longest": LONGEST_RESULT,
        }
        for conversation in conversations
    ]
    return [_result(answer) for answer in _answers(jobs)]


def _result(answer: Mapping[str, str | None]) -> str | CheckpointError:
    if answer["text"] is None:
        return CheckpointError("the chat template failed", found=answer["error"], code="template.fails")
    return answer["text"]


def _answers(jobs: list[dict[str, object]]) -> list[dict[str, str | None]]:
    command = [sys.executable, "-I", "-m", "openmodelatlas.text.render"]
    try:
        done = subprocess.run(
            command, input=json.dumps(jobs).encode(), capture_output=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise CheckpointError(
            "the chat template did not end", expected=f"within {SECONDS} s", code="template.fails"
        ) from None
    try:
        answers = json.loads(done.stdout)
        return [{"text": answer["text"], "error": answer["error"]} for answer in answers]
    except (ValueError, KeyError, TypeError):
        raise CheckpointError(
            "the chat template was stopped",
            found=f"exit status {done.returncode}",
            fix="it needs more memory or time than it may have",
            code="template.fails",
        ) from None
