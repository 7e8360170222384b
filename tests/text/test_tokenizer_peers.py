"""Equal to the libraries that own a format, on the vendors' own files; these come from pinned packages."""

import importlib
import random
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import tiktoken

from openmodelatlas.errors import FetchError
from openmodelatlas.fetch import wheels
from openmodelatlas.models import find
from openmodelatlas.text.byte_level import merges_by_rank
from openmodelatlas.text.forms import forms
from openmodelatlas.text.hard_texts import HARD_TEXTS
from openmodelatlas.text.known import of_family
from openmodelatlas.text.tiktoken import read_ranks
from openmodelatlas.text.tokenizer import Tokenizer
from openmodelatlas.text.write import gguf_settings, huggingface_files, spaced_apart

LLAMA = ("llama-models", "0.3.0", "7f77f78ff13fca09f70d76a376aff6414cd901623fb9d57e69c2f8367a73032f")
MISTRAL = ("mistral-common", "1.5.6", "7e6d7a69eb955d1710fd34d09cf1ed22aced75708d853ee3c4488bc84ab99bd6")
LETTERS = "abcdefgh ABC    \n\t.,!?'é日🙂0123456789"

pytestmark = pytest.mark.network


def wheel(name: str, version: str, sha256: str) -> Path:
    try:
        return wheels.wheel(name, version, sha256)
    except FetchError as error:
        pytest.skip(f"needs {name}=={version}: {error}")


def made_up(count: int) -> list[str]:
    draw = random.Random(0)
    return ["".join(draw.choice(LETTERS) for _ in range(draw.randrange(60))) for _ in range(count)]


@pytest.fixture(scope="module")
def ranks() -> bytes:
    return wheels.member(wheel(*LLAMA), "llama_models/llama3/tokenizer.model")


@pytest.fixture(scope="module")
def ours(ranks: bytes) -> Tokenizer:
    return forms({"tokenizer.model": ranks}, {}, find("llama-3.1-8b")).tokenizer()


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The reference's own class, from its package."""
    folder = tmp_path_factory.mktemp("llama")
    names = ["tokenizer_utils.py", "llama3/tokenizer.py", "llama3/tokenizer.model"]
    with zipfile.ZipFile(wheel(*LLAMA)) as archive:
        for name in names:
            path = folder / "vendor_llama" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(archive.read(f"llama_models/{name}"))
    sys.path.insert(0, str(folder))
    try:
        yield importlib.import_module("vendor_llama.llama3.tokenizer").Tokenizer.get_instance()
    finally:
        sys.path.remove(str(folder))


@pytest.mark.parametrize("text", HARD_TEXTS)
def test_llama_3_as_the_reference(ours: Tokenizer, reference: Any, text: str) -> None:
    assert ours.encode(text, literal=True) == reference.encode(text, bos=True, eos=False)
    named = f"<|start_header_id|>user<|end_header_id|>\n\n{text}<|eot_id|>"
    assert ours.encode(named, add_bos=False) == reference.encode(named, bos=False, eos=False, allowed_special="all")
    assert ours.decode(ours.encode(text, add_bos=False), special=True) == text


def test_llama_3_as_the_reference_on_much_text(ours: Tokenizer, reference: Any) -> None:
    for text in made_up(2000):
        assert ours.encode(text, literal=True) == reference.encode(text, bos=True, eos=False), text


def test_llama_3_special_tokens_are_the_references(ours: Tokenizer, reference: Any) -> None:
    assert {ours.tokens[n]: n for n in sorted(ours.vocabulary.control)} == reference.special_tokens
    assert ours.special.eos == set(reference.stop_tokens)
    assert (ours.vocab_size, ours.special.bos) == (reference.n_words, reference.bos_id)


def test_ranks_as_tiktoken_joins_them(ours: Tokenizer, ranks: bytes) -> None:
    mergeable = read_ranks(ranks, "tokenizer.model")
    assert len(merges_by_rank(mergeable)) == 280147  # as the published tokenizer.json has them, fault F74
    theirs = tiktoken.Encoding("peer", pat_str=r"[\s\S]+", mergeable_ranks=mergeable, special_tokens={})
    for text in made_up(300):
        for piece in ours.cut(text):
            assert ours.encode(piece, add_bos=False, literal=True) == theirs.encode(piece), piece


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("3333333", [8765, 8765, 18]),
        ("7777", [15831, 22]),
        ("I'M 2024!!\n\nok", [40, 28703, 220, 2366, 19, 25833, 564]),
        ("hello !", [15339, 758]),
        ("! ! !", [0, 758, 758]),
        ("x != y and a.b == c", [87, 976, 379, 323, 264, 960, 624, 272]),
    ],
)
def test_ids_that_the_faults_name(ours: Tokenizer, text: str, ids: list[int]) -> None:
    """Faults F81 and F87."""
    assert ours.encode(text, add_bos=False) == ids
    assert ours.decode(ids) == text


def test_control_strings_in_both_modes(ours: Tokenizer) -> None:
    """Fault F89."""
    assert ours.encode("<|eot_id|>", add_bos=False) == [128009]
    assert ours.encode("<|eot_id|>", add_bos=False, literal=True) == [27, 91, 68, 354, 851, 91, 29]


def test_names_of_special_tokens_are_those_of_the_release(ranks: bytes) -> None:
    """Fault F86: one file, two lists."""
    older = forms({"tokenizer.model": ranks}, {}, find("llama-3-8b")).tokenizer()
    newer = forms({"tokenizer.model": ranks}, {}, find("llama-3.1-8b")).tokenizer()
    assert (older.vocab_size, newer.vocab_size) == (128256, 128256)
    assert older.tokens[:128000] == newer.tokens[:128000]
    first = [number for number in range(128000, 128011) if older.tokens[number] != newer.tokens[number]]
    assert first == [128004, 128005, 128008, 128010]
    assert [newer.tokens[n] for n in first] == [
        "<|finetune_right_pad_id|>",
        "<|step_id|>",
        "<|eom_id|>",
        "<|python_tag|>",
    ]
    assert older.tokens[128255] == "<|reserved_special_token_250|>"
    assert older.special.eos == {128001, 128009}
    assert len(set(older.tokens)) == len(set(newer.tokens)) == 128256


@pytest.fixture(scope="module", params=["tokenizer.model.v1", "mistral_instruct_tokenizer_240323.model.v3"])
def pieces(request: pytest.FixtureRequest) -> bytes:
    return wheels.member(wheel(*MISTRAL), f"mistral_common/data/{request.param}")


def test_pieces_as_sentencepiece_joins_them(pieces: bytes) -> None:
    mine = forms({"tokenizer.model": pieces}, {}).tokenizer()
    theirs = sentencepiece.SentencePieceProcessor(model_proto=pieces)
    for text in [*HARD_TEXTS, "\u2581a b\u2581", "<s>x</s>", "<unk>", *made_up(3000)]:
        ids = theirs.encode(text)
        assert mine.encode(text, literal=True) == ids, text
        assert mine.decode(ids) == theirs.decode(ids), text
    assert [theirs.id_to_piece(n) for n in range(theirs.get_piece_size())] == list(mine.tokens)
    assert (mine.special.bos, mine.special.eos) == (theirs.bos_id(), {theirs.eos_id()})


def test_pieces_in_every_form(pieces: bytes) -> None:
    mine = forms({"tokenizer.model": pieces}, {}).tokenizer()
    merges = forms(huggingface_files(mine), {}).tokenizer()
    if spaced_apart(mine):  # the one difference that there may be, and no other
        token = mine.tokens[min(mine.vocabulary.added)]
        assert merges.encode(f"x {token} y") != mine.encode(f"x {token} y")
    settings = forms({}, gguf_settings(mine, mine.vocab_size)).tokenizer()
    for text in [*HARD_TEXTS, *made_up(2000)]:
        assert merges.encode(text) == settings.encode(text) == mine.encode(text), text
        assert merges.decode(merges.encode(text)) == text


def test_mixtral_is_known_as_its_file_is(pieces: bytes) -> None:
    mine = forms({"tokenizer.model": pieces}, {}).tokenizer()
    (entry,) = (entry for entry in of_family("mixtral") if entry.tokens == mine.vocab_size)
    assert all(mine.tokens[number] == name for number, name in entry.special.items())
    named = forms({"tokenizer.model": pieces}, {}, find(entry.models[0])).tokenizer()
    assert named.encode("x")[0] == named.special.bos
