"""Swap the explicit attention for the fused kernel of the same interface."""

from torch import nn

from openmodelatlas.parts.attend import Attend


def fuse(model: nn.Module) -> int:
    """Replace every `Attend` in `model` by its fused form, in place; how many there were. Module paths stay; the values
    inside attention can no longer be captured."""
    found = [(name, module) for name, module in model.named_modules() if isinstance(module, Attend)]
    for name, module in found:
        owner, _, leaf = name.rpartition(".")
        setattr(model.get_submodule(owner), leaf, module.fused().train(module.training))
    return len(found)
