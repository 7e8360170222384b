"""Every tokenizer that a checkpoint brings, in whatever form, and the one that is used."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from openmodelatlas.errors import AtlasError, CheckpointError
from openmodelatlas.records.findings import finding
from openmodelatlas.records.report import Finding
from openmodelatlas.text import gguf_vocabulary, huggingface, policy, sentencepiece, tiktoken
from openmodelatlas.text.known import known, rank_rules
from openmodelatlas.text.templates import default, templates
from openmodelatlas.text.tokenizer import SpecialTokens, Tokenizer

if TYPE_CHECKING:  # tokenizers are read without torch
    from openmodelatlas.models.variant import Variant

MODEL = "tokenizer.model"
UNREAD = ("tekken.json", "vocab.json", "vocab.txt", "spiece.model", "tiktoken.model")
UNREAD_ENDING = ".tiktoken"
"""Forms that are seen and not read."""


@dataclass(frozen=True, kw_only=True)
class Form:
    """One form: its tokenizer, or the error why there is none. `findings`: what is wrong though it could be built."""

    name: str
    tokenizer: Tokenizer | None = None
    error: AtlasError | None = None
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Forms:
    """All forms, the preferred first. `unread`: files that hold one in a way that is not read here."""

    found: tuple[Form, ...]
    unread: tuple[str, ...]

    @property
    def used(self) -> Form | None:
        """The first that can be built; else the first; None if there is none at all."""
        return next((form for form in self.found if form.tokenizer is not None), next(iter(self.found), None))

    def tokenizer(self) -> Tokenizer:
        """The one that is used. CheckpointError if there is none, or it cannot be built."""
        used = self.used
        if used is None:
            raise CheckpointError(
                "the checkpoint has no tokenizer that is read",
                expected="tokenizer.json, tokenizer.model, or the vocabulary of a GGUF file",
                found=", ".join(self.unread) or "none",
                code="tokenizer.none",
            )
        if used.tokenizer is None:
            assert used.error is not None
            raise used.error
        return used.tokenizer


def forms(beside: Mapping[str, bytes], metadata: Mapping[str, Any], variant: "Variant | None" = None) -> Forms:
    """Every form among the small files and the settings; `variant` tells releases apart whose file is the same."""
    found = []
    if gguf_vocabulary.present(metadata):
        found.append(_form(gguf_vocabulary.FORM, lambda: _gguf(metadata)))
    if huggingface.FORM in beside:
        found.append(_form(huggingface.FORM, lambda: _huggingface(beside, metadata)))
    if MODEL in beside:
        found.append(_form(MODEL, lambda: _model(beside, metadata, variant)))
    return Forms(
        found=tuple(found), unread=tuple(name for name in beside if name in UNREAD or name.endswith(UNREAD_ENDING))
    )


def _form(name: str, build: Callable[[], Form]) -> Form:
    try:
        return build()
    except AtlasError as error:
        return Form(name=name, error=error)


def _gguf(metadata: Mapping[str, Any]) -> Form:
    return Form(name=gguf_vocabulary.FORM, tokenizer=gguf_vocabulary.from_gguf(metadata))


def _huggingface(beside: Mapping[str, bytes], metadata: Mapping[str, Any]) -> Form:
    built = huggingface.from_huggingface(beside)
    tokenizer = built.tokenizer
    findings = list(built.findings)
    try:
        rows = policy.stated(beside, metadata, tokenizer.vocabulary)
        tokenizer.special = policy.special(beside, rows, huggingface.around(tokenizer))
        tokenizer.chat_template = _template(beside, metadata)
    except AtlasError as error:
        where = error.where or huggingface.FORM
        findings.append(
            finding("tokenizer.beside-unreadable", where, expected="a file that can be read", found=error.what)
        )
    return Form(name=huggingface.FORM, tokenizer=tokenizer, findings=tuple(findings))


def _model(beside: Mapping[str, bytes], metadata: Mapping[str, Any], variant: "Variant | None") -> Form:
    raw = beside[MODEL]
    if tiktoken.looks_like(raw):
        count = raw.count(b"\n") + (not raw.endswith(b"\n"))
        rules = rank_rules(count, variant)
        if rules is None:
            raise CheckpointError(
                "a file of ranks whose special tokens are not known",
                where=MODEL,
                expected="a number of ranks that a family's table has",
                found=f"{count:,}",
                code="tokenizer.unknown-kind",
            )
        return Form(name=MODEL, tokenizer=tiktoken.from_tiktoken(raw, rules, MODEL))
    if not sentencepiece.looks_like(raw):
        raise CheckpointError(
            "neither ranks nor a SentencePiece model", where=MODEL, found=repr(raw[:20]), code="tokenizer.damaged"
        )
    tokenizer = sentencepiece.from_sentencepiece(raw, MODEL)
    entry = None if variant is None else known(variant)
    own = tokenizer.special
    begins = own.bos is not None and entry is not None and entry.begins is True
    rows = policy.stated(beside, metadata, tokenizer.vocabulary)
    told = policy.special(beside, rows, ([own.bos] if begins and own.bos is not None else [], []))
    tokenizer.special = SpecialTokens(
        bos=own.bos if told.bos is None else told.bos, eos=told.eos or own.eos, add_bos=told.add_bos or begins
    )
    tokenizer.chat_template = _template(beside, metadata)
    return Form(name=MODEL, tokenizer=tokenizer)


def _template(beside: Mapping[str, bytes], metadata: Mapping[str, Any]) -> str | None:
    found = default(templates(beside, metadata))
    return None if found is None else found.text
