"""A model that the atlas does not have is still read as what its header says."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiny
from gguf_writer import File, f32

from openmodelatlas.errors import CheckpointError
from openmodelatlas.models import tied
from openmodelatlas.weights.configuration import flat
from openmodelatlas.weights.described import described
from openmodelatlas.weights.naming import name_table
from openmodelatlas.weights.reading.gguf import open_gguf

Write = Callable[..., Path]


@pytest.mark.parametrize("like", tiny.representatives())
def test_the_numbers_and_the_structure_of_the_header(write: Write, like: str) -> None:
    of = tiny.variant(like)
    made = tiny.file(of)
    modules = {path for path, _ in of.build("meta").named_modules()}
    divisors = [c.stored for c in name_table(of.family, "gguf").constants if c.equals and c.owner in modules]
    made.tensors = [*made.tensors, *(f32(name, tiny.np.ones(8)) for name in divisors)]
    with open_gguf(write(made)) as file:
        found = described(file.header, "gguf", of.family)
    unstated = name_table(of.family, "gguf").unstated
    assert {name: value for name, value in vars(found.config).items() if name not in unstated} == {
        name: value for name, value in vars(of.config).items() if name not in unstated
    }
    assert dict(found.parts) == dict(of.parts)
    assert tied(found) == tied(of)


@pytest.mark.parametrize(
    ("scaling", "classes"), [(None, "Config"), ({"rope_type": "llama3", "factor": 8.0}, "ScaledConfig")]
)
def test_scaling_is_told_from_settings_alone(scaling: Any, classes: str) -> None:
    from openmodelatlas.records.report import Header

    config = {"hidden_size": 64, "rope_theta": 500000.0, "rope_scaling": scaling, "num_attention_heads": 4}
    header = Header(format="config.json", path="x", file_bytes=0, metadata=flat(config), tensors=())
    found = described(header, "huggingface", "llama")
    assert type(found.config).__name__ == classes
    assert (found.config.hidden_size, found.config.head_dim, found.config.num_key_value_heads) == (64, 16, 4)


@pytest.mark.parametrize("value", [0, -1, 1 << 40, True, "64"])
def test_a_number_that_no_model_can_have_is_refused(write: Write, value: Any) -> None:
    made = tiny.file()
    made.metadata = {**made.metadata, "llama.block_count": value}
    pairs = File(made.metadata, made.tensors)
    with pytest.raises(CheckpointError, match="no model can have"):  # noqa: SIM117
        with open_gguf(write(pairs if value != 1 << 40 and value != -1 else _wide(made, value))) as file:
            described(file.header, "gguf", "llama")


def _wide(made: File, number: int) -> File:
    from gguf_writer import I64, string
    from gguf_writer import value as encoded

    plain = {key: content for key, content in made.metadata.items() if key != "llama.block_count"}
    pairs = [string(key) + encoded(content) for key, content in plain.items()]
    return File(plain, made.tensors, pairs=[*pairs, string("llama.block_count") + encoded(number, I64)])
