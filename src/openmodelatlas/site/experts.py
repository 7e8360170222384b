"""What a mixture of experts keeps aside: parameters that exist once for every expert, and those of the chosen ones."""

from collections.abc import Mapping

from openmodelatlas.records.graph import Node, ParameterTensor

EXPERTS, CHOSEN = "N", "A"
"""The axes of a map that has experts."""


def of_every_expert(tensor: ParameterTensor) -> bool:
    """Does the tensor hold a matrix for every expert? (A router's has a row for each.)"""
    return tensor.axes[0] == EXPERTS and len(tensor.axes) == 3


def stacked_experts(node: Node) -> int:
    """How many experts an op holds a matrix for; 0 if none, or if the node is no op."""
    found = [t.shape[0] for t in node.parameters.tensors if of_every_expert(t)]
    return found[0] if found and not node.children else 0


def active(node: Node, axes: Mapping[str, int]) -> int:
    """Parameters of a node that one position computes with: of the experts', the share of the chosen."""
    stacks = sum(t.count for t in node.parameters.tensors if of_every_expert(t))
    return node.parameters.count - stacks + stacks * axes.get(CHOSEN, 1) // axes.get(EXPERTS, 1)
