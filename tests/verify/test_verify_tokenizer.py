"""Tokenizers and templates that are wrong in the ways that files are: each is found by its kind, in its words."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import made_checkpoints as made
import pytest
import tiny
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from openmodelatlas.models import find
from openmodelatlas.models.variant import Variant
from openmodelatlas.records.report import Finding, Header
from openmodelatlas.text.known import known, of_family
from openmodelatlas.text.spelling import CHARACTERS
from openmodelatlas.verify.outcome import Outcome
from openmodelatlas.verify.tokenizer import check_text
from openmodelatlas.weights.opened import Opened

LLAMA_3, LLAMA_31 = "llama-3-8b", "llama-3.1-8b"
HEADER = "<|start_header_id|>{}<|end_header_id|>\n\n{}<|eot_id|>"
PLAIN = (
    "{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n"
    "{{ m.content | trim }}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
DATED = (
    "{{ bos_token }}<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\n"
    "Today Date: {{ date_string | default('26 Jul 2024') }}\n\n"
    "{% if messages[0].role == 'system' %}{{ messages[0].content | trim }}{% set messages = messages[1:] %}{% endif %}"
    "<|eot_id|>{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n"
    "{{ m.content | trim }}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)


class Made(Opened):
    """A checkpoint of nothing but settings and small files."""

    def __init__(self, settings: Mapping[str, Any], beside: Mapping[str, bytes], scheme: str) -> None:
        self.scheme = scheme  # type: ignore[assignment]
        self.header = Header(format="made", path="made", file_bytes=0, metadata=dict(settings), tensors=())
        self.beside = dict(beside)

    def values(self, name: str, start: int = 0, end: int | None = None) -> Any:  # noqa: ARG002
        raise KeyError(name)

    def close(self) -> None:
        pass


def llama_3(name: str = LLAMA_3, size: int = 128256) -> list[str]:
    """A vocabulary of single bytes and fillers, with the special tokens of the release at their ids."""
    rules = known(find(name)).ranks  # type: ignore[union-attr]
    assert rules is not None
    filler = [f"filler{n}" for n in range(rules.ranks - 256)]
    return [*CHARACTERS, *filler, *rules.special][:size]


def gguf(tokens: list[str], **changes: Any) -> dict[str, Any]:
    """Settings of a GGUF file with this vocabulary; keys without `tokenizer.ggml.`, None takes one away."""
    settings = {
        "model": "gpt2",
        "pre": "llama-bpe",
        "tokens": tokens,
        "token_type": [3 if token.startswith("<|") else 1 for token in tokens],
        "merges": ["f i"] if "fi" in tokens else [],
        "bos_token_id": 128000,
        "eos_token_id": 128009,
        "add_bos_token": True,
    }
    settings |= changes
    return {f"tokenizer.ggml.{key}": value for key, value in settings.items() if value is not None}


def llama_settings(name: str = LLAMA_3, **changes: Any) -> dict[str, Any]:
    tokens = llama_3(name)
    tokens[1000] = "fi"  # a vocabulary without any merge is none
    return gguf(tokens, **changes)


def checked(
    settings: Mapping[str, Any], of: str | Variant = LLAMA_3, beside: Mapping[str, bytes] | None = None
) -> tuple[Outcome, Outcome]:
    variant = find(of) if isinstance(of, str) else of
    scheme = "gguf" if "tokenizer.ggml.tokens" in settings else "huggingface"
    tokenizer, template = check_text(Made(settings, beside or {}, scheme), variant)
    return tokenizer, template


def codes(outcome: Outcome) -> list[str]:
    return [found.code for found in outcome[1]]


def only(outcome: Outcome, code: str) -> Finding:
    (found,) = outcome[1]
    assert found.code == code, found
    return found


def test_a_right_one_holds() -> None:
    tokenizer, template = checked(llama_settings() | {"tokenizer.chat_template": PLAIN})
    assert tokenizer[1] == template[1] == []
    assert tokenizer[0].detail == "tokenizer.ggml: 128,256 tokens for 128,256 rows"
    assert template[0].detail == "tokenizer.chat_template renders, 2 conversations held against Llama 3"
    assert "beginning: 128000 is added by encoding" in tokenizer[0].notes


# Hugging Face's files, hand-made and small.


def files(
    tokens: list[str], *, special: tuple[str, ...] = (), config: Mapping[str, Any] | None = None, **others: Any
) -> dict[str, bytes]:
    """A `tokenizer.json` of bytes and these tokens after them, and settings."""
    entries = [*CHARACTERS, *tokens]
    backend = Tokenizer(models.BPE({token: number for number, token in enumerate(entries)}, []))
    splits = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.Sequence(splits), decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(token, special=True) for token in special])
    found = {"tokenizer.json": backend.to_str().encode()}
    found["tokenizer_config.json"] = json.dumps(dict(config or {})).encode()
    return found | {f"{name}.json": json.dumps(content).encode() for name, content in others.items()}


def rows(count: int) -> Variant:
    return dataclasses.replace(tiny.variant(vocab_size=count), name="made")


@pytest.mark.parametrize(("count", "found"), [(258, "tokenizer.too-large"), (266, None), (272, "padding")])
def test_rows_and_tokens(count: int, found: str | None) -> None:
    """Fault F74: rows below the tokens are an error, rows above them padding."""
    outcome, _ = checked({}, rows(count), files([f"<|{n}|>" for n in range(10)], special=("<|0|>",)))
    if found == "padding":
        assert "266 tokens, 272 rows: 6 rows of padding" in outcome[0].notes
    elif found:
        flaw = only(outcome, found)
        assert (flaw.expected, flaw.found) == ("at most 258 tokens", "266")
    else:
        assert outcome[1] == []


def test_qwen_3_is_padded() -> None:
    """Fault F74: 151,669 tokens and 151,936 rows are right."""
    tokens = [*CHARACTERS, "fi", *(f"filler{n}" for n in range(151669 - 257))]
    tokens[151645] = "<|im_end|>"
    settings = gguf(tokens, pre="qwen2", bos_token_id=None, eos_token_id=151645, add_bos_token=False)
    outcome, _ = checked(settings, "qwen3-8b")
    assert outcome[1] == []
    assert "151,669 tokens, 151,936 rows: 267 rows of padding" in outcome[0].notes
    outcome, _ = checked(settings | {"tokenizer.ggml.pre": "llama-bpe"}, "qwen3-8b")
    assert set(codes(outcome)) == {"tokenizer.cut"}


def test_the_stated_size_is_a_third_number() -> None:
    outcome, _ = checked({"vocab_size": 264}, rows(266), files(["<|0|>"], special=("<|0|>",)))
    flaw = only(outcome, "tokenizer.vocabulary-size")
    assert (flaw.where, flaw.expected, flaw.found) == ("config.json", "266 rows", "264")


def test_a_missing_way_of_cutting_is_recovered_from_five_ids_alone() -> None:
    """Fault F74."""
    outcome, _ = checked(llama_settings(pre=None))
    assert outcome[1] == []
    recovered = "tokenizer.ggml.pre is not there; recovered as llama-bpe from the tokens at "
    assert f"{recovered}128000, 128001, 128006, 128007, 128009" in outcome[0].notes
    for number in (128000, 128001, 128006, 128007, 128009):
        settings = llama_settings(pre=None)
        settings["tokenizer.ggml.tokens"][number] = "<|another|>"
        outcome, _ = checked(settings)
        assert only(outcome, "tokenizer.unknown-cut").found.endswith("absent")


def test_a_mislabelled_way_of_cutting_is_named() -> None:
    """Fault F74: smaug-bpe cuts as llama-bpe."""
    outcome, _ = checked(llama_settings(pre="smaug-bpe"))
    assert outcome[1] == []
    assert "tokenizer.ggml.pre is smaug-bpe, which cuts as llama-bpe does" in outcome[0].notes


def test_the_wrong_kind_of_tokenizer() -> None:
    """Fault F74: `llama` for a vocabulary of bytes."""
    outcome, template = checked(llama_settings(model="llama"))
    flaw = only(outcome, "tokenizer.wrong-kind")
    assert (flaw.title, flaw.where, flaw.found) == (
        "the kind of tokenizer is mislabelled",
        "tokenizer.ggml.model",
        "'llama'",
    )
    assert template[0].state == "not run"


@pytest.mark.parametrize(("pre", "cut"), [("gpt-2", "'3333333'"), ("qwen2", "'3'|'3'|'3'|'3'|'3'|'3'|'3'")])
def test_numbers_cut_in_another_way(pre: str, cut: str) -> None:
    """Fault F81."""
    outcome, _ = checked(llama_settings(pre=pre))
    assert set(codes(outcome)) == {"tokenizer.cut"}
    flaw = outcome[1][0]
    assert (flaw.title, flaw.expected, flaw.found) == (
        "text is cut in another way than the family's",
        "'333'|'333'|'3'",
        cut,
    )


def test_two_beginnings_and_none() -> None:
    """Fault F83: exactly one."""
    twice, none = "{{ bos_token }}" + PLAIN, PLAIN.removeprefix("{{ bos_token }}")
    settings = llama_settings()
    tokenizer, right = checked(settings | {"tokenizer.chat_template": PLAIN})
    assert any("a program that does both begins twice" in note for note in right[0].notes)
    _, template = checked(settings | {"tokenizer.chat_template": twice})
    assert "it writes 2 of them" in [flaw.found for flaw in template[1] if flaw.code == "template.two-beginnings"]
    _, template = checked(llama_settings(add_bos_token=False) | {"tokenizer.chat_template": none})
    found = [flaw.found for flaw in template[1] if flaw.code == "template.two-beginnings"]
    assert found == ["neither template nor encoding writes one"]
    tokenizer, _ = checked(llama_settings(add_bos_token=False))
    assert only(tokenizer, "tokenizer.beginning-missing").expected == "a beginning before every text, as Llama 3"


def ends(config: Any, generation: Any, name: str) -> tuple[Outcome, Outcome]:
    """Three files that state an end. Token 256 ends a text, 257 a turn."""
    made_files = files(
        ["<|end|>", "<|turn|>", "<|message|>"],
        special=("<|end|>", "<|turn|>", "<|message|>"),
        config={"eos_token": name, "chat_template": "{% for m in messages %}{{ m.content }}<|turn|>{% endfor %}"},
        generation_config={"eos_token_id": generation},
    )
    return checked({"eos_token_id": config}, rows(259), made_files)


def test_ends_that_every_file_has() -> None:
    tokenizer, template = ends([256, 257], [256, 257], "<|turn|>")
    assert tokenizer[1] == template[1] == []
    assert tokenizer[0].notes[:2] == (
        "eos 256 '<|end|>', 257 '<|turn|>': config.json eos_token_id, generation_config.json",
        "eos 257 '<|turn|>': tokenizer_config.json",
    )


def test_a_model_that_never_stops() -> None:
    """Fault F85: only the end of a text is an end, while turns end by another token."""
    _, template = ends(256, 256, "<|end|>")
    flaw = only(template, "template.turn-end-not-stop")
    assert flaw.expected == "257 '<|turn|>', with which the template ends a turn"
    assert flaw.found == "stops at 256"


def test_files_that_disagree_on_the_end() -> None:
    """Fault F85: neither file's ends are among the other's."""
    tokenizer, _ = ends([256, 257], [257, 258], "<|turn|>")
    flaw = only(tokenizer, "tokenizer.ends-disagree")
    assert (flaw.where, flaw.expected, flaw.found) == (
        "config.json and generation_config.json",
        "config.json: 256, 257",
        "generation_config.json: 257, 258",
    )


def test_an_end_that_is_no_token() -> None:
    tokenizer, _ = ends(256, 999, "<|none|>")
    assert codes(tokenizer) == ["tokenizer.role-unknown"] * 2
    assert [flaw.found for flaw in tokenizer[1]] == ["999", "'<|none|>'"]


def test_beginnings_that_disagree() -> None:
    config = {"bos_token": "<|a|>"}
    made_files = files(["<|a|>", "<|b|>"], special=("<|a|>", "<|b|>"), config=config)
    tokenizer, _ = checked({"bos_token_id": 257}, rows(258), made_files)
    assert only(tokenizer, "tokenizer.beginnings-disagree").where == "config.json and tokenizer_config.json"


def test_the_releases_names_of_special_tokens() -> None:
    """Fault F86: Llama 3.1's names with a Llama 3 model, and the other way."""
    for file, model in ((LLAMA_31, LLAMA_3), (LLAMA_3, LLAMA_31)):
        tokenizer, _ = checked(llama_settings(file), model)
        assert set(codes(tokenizer)) == {"tokenizer.special-elsewhere"}
        flaw = tokenizer[1][0]
        assert "at 128004" in flaw.expected
        assert flaw.found.startswith(f"{llama_3(file)[128004]!r} at 128004")
    tokenizer, _ = checked(llama_settings(LLAMA_31), LLAMA_31)
    assert tokenizer[1] == []


def test_a_special_token_marked_as_text() -> None:
    settings = llama_settings()
    settings["tokenizer.ggml.token_type"][128009] = 1
    tokenizer, _ = checked(settings)
    assert only(tokenizer, "tokenizer.special-flag").found == "marked as text"


def test_spaces_that_other_programs_lose() -> None:
    """Fault F87: the setting is told, and not followed."""
    for on in (True, False):
        config = {"clean_up_tokenization_spaces": on}
        tokenizer, _ = checked({}, rows(257), files(["<|0|>"], special=("<|0|>",), config=config))
        assert tokenizer[1] == []
        assert any("clean_up_tokenization_spaces is true" in note for note in tokenizer[0].notes) == on


@pytest.mark.parametrize(
    ("model", "template", "expected", "found"),
    [
        (
            LLAMA_3,
            DATED,
            "'der_id|>\\n\\nBe brief.<|eot_id|><|start_hea'",
            "'der_id|>\\n\\nCutting Knowledge Date: Decemb'",
        ),
        (
            LLAMA_31,
            PLAIN,
            "'eader_id|>system<|end_header_id|>\\n\\nCutti'",
            "'eader_id|>user<|end_header_id|>\\n\\nHi<|eot'",
        ),
        (
            LLAMA_3,
            PLAIN.replace("<|eot_id|>{% endfor", "<|eot_id|>\n{% endfor"),
            "'<|eot_id|><|start_header_id|>user<|end_h'",
            "'<|eot_id|>\\n<|start_header_id|>user<|end_'",
        ),
        (
            LLAMA_3,
            PLAIN.replace(" | trim", ""),
            "'der_id|>\\n\\nHi<|eot_id|><|start_header_id|'",
            "'der_id|>\\n\\n Hi \\n<|eot_id|><|start_header_'",
        ),
    ],
)
def test_another_rendering_than_the_familys(model: str, template: str, expected: str, found: str) -> None:
    """Fault F88: the lines of dates, a newline between turns, contents that are not stripped."""
    settings = llama_settings(model) | {"tokenizer.chat_template": template}
    _, outcome = checked(settings, model)
    flaw = next(flaw for flaw in outcome[1] if flaw.code == "template.differs")
    assert flaw.title == "the chat template writes another text than the family's"
    assert (flaw.expected, flaw.found) == (expected, found)


def test_the_dated_rendering_is_llama_31s() -> None:
    """Fault F88."""
    _, outcome = checked(llama_settings(LLAMA_31) | {"tokenizer.chat_template": DATED}, LLAMA_31)
    assert outcome[1] == []


def test_control_strings_in_both_modes() -> None:
    """Fault F89: both are shown."""
    tokenizer, _ = checked(llama_settings())
    (note,) = (note for note in tokenizer[0].notes if "--literal" in note)
    ids = ", ".join(str(ord(character)) for character in "<|eot_id|>")
    assert note == f"'<|eot_id|>' in text becomes [128009] as control, [{ids}] with --literal"


# Files of one tokenizer that disagree, and templates that misbehave.


def damaged(name: str, change: Any) -> dict[str, bytes]:
    """The small folder with one JSON file changed."""
    made_files = files(["<|a|>", "<|b|>"], special=("<|a|>", "<|b|>"))
    content = json.loads(made_files[name])
    change(content)
    return made_files | {name: json.dumps(content).encode()}


def test_added_tokens_that_collide_or_leave_gaps() -> None:
    def gap(content: Any) -> None:
        content["model"]["vocab"]["<|b|>"] = 300
        content["added_tokens"][1]["id"] = 300

    def moved(content: Any) -> None:
        content["added_tokens"][1]["id"] = 900

    def twice(content: Any) -> None:
        content["model"]["vocab"]["other"] = 256

    for change, code in ((gap, "tokenizer.gap"), (moved, "tokenizer.added-elsewhere"), (twice, "tokenizer.id-twice")):
        tokenizer, _ = checked({}, rows(301), damaged("tokenizer.json", change))
        assert code in codes(tokenizer), code
    tokenizer, _ = checked({}, rows(301), damaged("tokenizer.json", gap))
    assert only(tokenizer, "tokenizer.gap").found == "43 ids without a token, the first 257"


def test_added_tokens_of_another_file() -> None:
    def at(number: str, **row: Any) -> Any:
        return lambda content: content.update(added_tokens_decoder={number: {"content": "<|b|>"} | row})

    for change, expected in ((at("258"), ["tokenizer.added-elsewhere"]), (at("257", special=True), [])):
        tokenizer, _ = checked({}, rows(258), damaged("tokenizer_config.json", change))
        assert codes(tokenizer) == expected
    tokenizer, _ = checked({}, rows(258), damaged("tokenizer_config.json", at("257", special=False)))
    assert only(tokenizer, "tokenizer.added-flag").found == "tokenizer.json has it as control"


def test_a_file_beside_that_is_no_json() -> None:
    made_files = files(["<|a|>"], special=("<|a|>",)) | {"generation_config.json": b"[1"}
    tokenizer, _ = checked({}, rows(257), made_files)
    assert "tokenizer.beside-unreadable" in codes(tokenizer) or "files.json" in codes(tokenizer)


def test_bytes_without_a_token() -> None:
    tokens = llama_3()
    tokens[CHARACTERS.index("Ã")] = "filler"
    tokens[1000] = "fi"
    tokenizer, _ = checked(gguf(tokens))
    assert "tokenizer.bytes-missing" in codes(tokenizer)
    assert "tokenizer.round-trip" in codes(tokenizer)
    assert tokenizer[1][0].found == "none for 1 bytes of text, the first 0xC3"


def test_fewer_tokens_than_the_familys() -> None:
    tokens = llama_3()[:128200]
    tokens[1000] = "fi"
    tokenizer, _ = checked(gguf(tokens))
    assert only(tokenizer, "tokenizer.too-few").expected == "128,256 as Llama 3"


def test_forms_that_disagree(tmp_path: Path) -> None:
    """The same vocabulary in two forms, with two tokens changed places in one."""
    made.write_tokenizer(tmp_path)
    beside = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    settings = tiny.tokenizer()
    tokenizer, _ = checked(settings, rows(tiny.VOCAB), beside)
    assert "tokenizer.forms-disagree" not in codes(tokenizer)
    assert "forms that were compared: tokenizer.ggml, tokenizer.json" in tokenizer[0].notes
    tokens = list(settings["tokenizer.ggml.tokens"])
    a, b = tokens.index("a"), tokens.index("b")
    tokens[a], tokens[b] = "b", "a"
    tokenizer, _ = checked(settings | {"tokenizer.ggml.tokens": tokens}, rows(tiny.VOCAB), beside)
    flaws = [flaw for flaw in tokenizer[1] if flaw.code == "tokenizer.forms-disagree"]
    assert flaws[0].where == f"tokenizer.ggml and tokenizer.json, id {a}"
    assert flaws[0].found == "tokenizer.json: 'a'; 2 ids differ"
    assert len(flaws) == 2  # the first id, and the first text


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{{ cycler.__init__.__globals__.os.popen('id').read() }}", "unsafe"),
        ("{% for m in messages %}", "TemplateSyntaxError"),
        ("{% include 'x' %}", "no loader"),
        ("{{ 'a' * 10**10 }}", "MemoryError"),
        ("x" * 200_000, "200000"),
    ],
)
def test_templates_that_fail(template: str, reason: str) -> None:
    _, outcome = checked(llama_settings() | {"tokenizer.chat_template": template})
    flaw = only(outcome, "template.fails")
    assert reason in flaw.found


def test_no_template_is_no_fault() -> None:
    _, outcome = checked(llama_settings())
    assert (outcome[0].state, outcome[0].detail) == ("not run", "the checkpoint has none")


def test_templates_of_two_files() -> None:
    made_files = files(["<|a|>"], special=("<|a|>",), config={"chat_template": "{{ messages[0].content }}<|a|>"})
    made_files["chat_template.jinja"] = b"{{ messages[0].content }} <|a|>"
    _, outcome = checked({"eos_token_id": 256}, rows(257), made_files)
    assert only(outcome, "template.several").where == "chat_template.jinja and tokenizer_config.json"
    made_files["tokenizer_config.json"] = json.dumps({"chat_template": [{"name": 1}]}).encode()
    _, outcome = checked({"eos_token_id": 256}, rows(257), made_files)
    assert codes(outcome) == ["template.damaged"]


def test_no_tokenizer() -> None:
    outcome, _ = check_text(Made({"general.architecture": "llama"}, {}, "gguf"), find(LLAMA_3))
    assert only(outcome, "tokenizer.none")
    outcome, _ = check_text(Made({}, {"tekken.json": b"{}"}, "huggingface"), find(LLAMA_3))
    assert (outcome[0].state, outcome[0].detail) == ("not run", "tekken.json: a form that is not read")
    outcome, _ = check_text(Made({}, {"tokenizer_config.json": b"{}"}, "huggingface"), find(LLAMA_3))
    assert only(outcome, "tokenizer.none").found == "only tokenizer_config.json"
    outcome, _ = check_text(Made({}, {}, "huggingface"), find(LLAMA_3))
    assert (outcome[0].state, outcome[0].detail) == ("not run", "none stands with the checkpoint")


def test_every_entry_of_the_tables_names_models_and_sources() -> None:
    from openmodelatlas.models import variants
    from openmodelatlas.models.tables import families_with_tokens

    for family in families_with_tokens():
        entries = of_family(family)
        named = [model for entry in entries for model in entry.models]
        assert len(set(named)) == len(named)
        assert all(variants()[model].family == family for model in named)
        for entry in entries:
            assert entry.sources, entry.title
            assert entry.tokens <= variants()[entry.models[0]].config.vocab_size
