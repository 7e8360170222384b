"""Chat templates: rendered as their writers expect, and harmless whatever they are."""

from pathlib import Path

import pytest
import tiny

from openmodelatlas.errors import CheckpointError, InputError
from openmodelatlas.text import chat
from openmodelatlas.text.chat import apply_template
from openmodelatlas.text.gguf_vocabulary import from_gguf
from openmodelatlas.text.tokenizer import Tokenizer
from openmodelatlas.weights.reading.gguf import open_gguf

HELLO = [{"role": "user", "content": "hello <|end|>"}]


def with_template(template: str | None) -> Tokenizer:
    return from_gguf(tiny.metadata(tiny.variant()) | {"tokenizer.chat_template": template})


def test_the_demo_template(demo_checkpoint: Path) -> None:
    with open_gguf(demo_checkpoint) as file:
        tokenizer = from_gguf(file.section("tokenizer."))
    assert apply_template(tokenizer, [{"role": "user", "content": "Hi"}]) == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )


def test_blocks_are_trimmed_and_tokens_given() -> None:
    template = "{{ bos_token }}\n  {% for m in messages %}\n{{ m['content'] | trim }}\n  {% endfor %}\n{{ eos_token }}"
    assert apply_template(with_template(template), HELLO) == "<|start|>\nhello <|end|>\n<|end|>"


def test_no_template() -> None:
    with pytest.raises(InputError, match="no chat template"):
        apply_template(with_template(None), HELLO)


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "unsafe"),
        ("{{ cycler.__init__.__globals__.os.popen('id').read() }}", "unsafe"),
        ("{{ messages.append(1) }}", "unsafe"),
        ("{% include '/etc/passwd' %}", "failed"),
        ("{% for m in messages %}", "TemplateSyntaxError"),
        ("{{ nothing.at.all }}", "UndefinedError"),
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{{ 'a' * 10**10 }}", "MemoryError"),
        ("{% for i in range(99999) %}{{ 'a' * 1000 }}{% endfor %}", "longer than"),
        ("{{ 'x' * 200000 }}" + " " * 200000, "too long"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "RecursionError|stopped"),
    ],
)
def test_a_hostile_template_is_an_error(template: str, reason: str) -> None:
    with pytest.raises(CheckpointError, match=reason) as caught:
        apply_template(with_template(template), HELLO)
    assert len(str(caught.value)) < 1000


def test_an_endless_template_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat, "SECONDS", 1)
    loop = "{% for a in range(99999) %}" * 3 + "{% endfor %}" * 3
    with pytest.raises(CheckpointError, match="did not end"):
        apply_template(with_template(loop), HELLO)
