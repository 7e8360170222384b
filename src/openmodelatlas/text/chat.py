"""A conversation as one prompt, by the checkpoint's own chat template.

A template is a program from a stranger. It runs in jinja2's immutable sandbox, and that in a process of its own with
little memory and time: the sandbox alone stops no endless loop and no string of a gigabyte.
"""

import json
import subprocess
import sys
from collections.abc import Sequence

from openmodelatlas.errors import CheckpointError, InputError
from openmodelatlas.text.tokenizer import Tokenizer

LONGEST_TEMPLATE = 1 << 17  # characters
LONGEST_RESULT = 1 << 22
SECONDS = 20


def apply_template(tokenizer: Tokenizer, messages: Sequence[dict[str, str]]) -> str:
    """The prompt for `messages` (dicts of `role` and `content`), open for the assistant's turn."""
    template = tokenizer.chat_template
    if template is None:
        raise InputError("the checkpoint has no chat template", fix="run it without --chat")
    if len(template) > LONGEST_TEMPLATE:
        raise CheckpointError(
            "the chat template is too long", expected=f"at most {LONGEST_TEMPLATE} characters", found=len(template)
        )
    bos, eos = tokenizer.special.bos, min(tokenizer.special.eos, default=None)
    job = {
        "template": template,
        "messages": list(messages),
        "bos_token": "" if bos is None else tokenizer.tokens[bos],
        "eos_token": "" if eos is None else tokenizer.tokens[eos],
        "longest": LONGEST_RESULT,
    }
    return _rendered(job)


def _rendered(job: dict[str, object]) -> str:
    command = [sys.executable, "-I", "-m", "openmodelatlas.text.render"]
    try:
        done = subprocess.run(
            command, input=json.dumps(job).encode(), capture_output=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise CheckpointError("the chat template did not end", expected=f"within {SECONDS} s") from None
    try:
        answer = json.loads(done.stdout)
        text, error = answer["text"], answer["error"]
    except (ValueError, KeyError, TypeError):
        raise CheckpointError("the chat template was stopped", found=f"exit status {done.returncode}",
                              fix="it needs more memory or time than it may have") from None  # fmt: skip
    if error is not None:
        raise CheckpointError("the chat template failed", found=error)
    return str(text)
