"""Claims that something is *not* there, each run with a counter-example that must be noticed."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from openmodelatlas import models
from openmodelatlas.fetch.progress import Progress
from openmodelatlas.models.variant import Variant
from openmodelatlas.parts.attend import AddMask, CausalMask, WindowMask
from openmodelatlas.parts.linear import ExpertLinear, Linear
from openmodelatlas.parts.norm import ZeroCenteredRMSNorm
from openmodelatlas.parts.rope import RopeFrequencies, RopeTable, RotaryTable
from openmodelatlas.records.catalog import Model
from openmodelatlas.records.verification import Measurement, Tier, VerificationRecord
from openmodelatlas.trace.locate import node_id
from openmodelatlas.trace.regions import kinds
from openmodelatlas.verify import parity, parity_run
from openmodelatlas.verify.checks.executed import ropes

TITLE = "what a claim says is absent is absent: scaling, biases, caps, positions but by rotation, sight of later tokens"
TIER: Tier = parity_run.TINY
POSITIONS = 24
NOISE = 1e-12
"""Float64, relative to the largest score; sums in another order are some hundred times nearer."""

LEAST = 1e-3
"""What a counter-example must move, relative."""

GROWN, CAP = 1000.0, 30.0
"""By how much scores are grown, and a cap that a model might have."""

MASKS = (CausalMask, WindowMask)


def applies(_model: Model) -> str | None:
    """Every model is said to lack something."""
    return None


def run(model: Model, progress: Progress) -> VerificationRecord:
    """Each absence, then its counter-example; a counter-example that is not noticed fails the check, too."""
    progress("looking for what must not be there", 0, 0)
    subject = Subject(parity.twin(model.variant))
    found = [*positions(subject), *later(subject), *biases(subject), *means(subject), *caps(subject)]
    nodes, said = [m.where for m in found if m.where], []
    for name, rope in plain_ropes(model):
        found += scaling(model, name, rope)
        nodes.append(f"{name}.frequencies")
        said.append(f"No scaling: {name}.table is made of the frequencies as they are.")
    said.append("Each absence has a counter-example that is noticed: `moved` must be at least its `least`.")
    return parity_run.record(
        model,
        __name__,
        TITLE,
        found,
        references=(),
        positions=POSITIONS,
        dtype="float64",
        detail=" ".join(said),
        nodes=nodes,
    )


Change = Callable[[Any], object]
"""What is made of a module's result."""


class Subject:
    """A tiny twin in float64 with random weights, and one text."""

    def __init__(self, variant: Variant) -> None:
        self.model = parity.filled(variant, parity.stored(variant), torch.float64)
        draw = torch.Generator().manual_seed(5)
        self.tokens = torch.randint(0, variant.config.vocab_size, (1, POSITIONS), generator=draw)
        self.positions = torch.arange(POSITIONS)[None]

        self.blocks = kinds(self.model)

    def of(self, *kinds: type[nn.Module]) -> list[tuple[str, nn.Module]]:
        """Every module of some kinds, by its path."""
        return [(path, module) for path, module in self.model.named_modules() if isinstance(module, kinds)]

    def node(self, path: str) -> str:
        """A path as a node's id."""
        return node_id(path, self.blocks)

    def scores(self, tokens: Tensor | None = None) -> Tensor:
        """One forward."""
        with torch.no_grad():
            out: Tensor = self.model(self.tokens if tokens is None else tokens, self.positions)
        return out

    def value(self, path: str, changed: Mapping[str, Change] | None = None) -> Tensor:
        """What a module gives out in one forward, its entries that are not infinite."""
        found: list[Tensor] = []

        def keep(out: Tensor) -> Tensor:
            found.append(out)
            return out

        with self.without({**(changed or {}), path: keep}):
            self.scores()
        return found[0][found[0].isfinite()]

    @contextmanager
    def without(self, paths: Mapping[str, Change]) -> Iterator[None]:
        """Results of modules replaced while this lasts."""
        handles = [
            self.model.get_submodule(path).register_forward_hook(lambda _m, _a, out, make=make: make(out))
            for path, make in paths.items()
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


def pair(where: str, what: str, value: float, control: str, moved: float) -> list[Measurement]:
    """An absence and its counter-example; the second is measured as how much it falls short of what must move."""
    short = max(0.0, LEAST - moved)
    return [
        Measurement(where=where, what=what, value=value, bound=NOISE),
        Measurement(where=where, what=f"counter-example moved the result: {control}", value=moved, bound=None),
        Measurement(where=where, what="counter-example short of its least", value=short, bound=0.0),
    ]


def relative(ours: Tensor, theirs: Tensor) -> float:
    """The largest difference, by the largest magnitude."""
    return float((ours - theirs).abs().max() / theirs.abs().max())


def positions(subject: Subject) -> list[Measurement]:
    """Without rotation and mask, tokens in another order give the same scores in that order."""
    order = torch.randperm(POSITIONS, generator=torch.Generator().manual_seed(6))

    def still(out: RotaryTable) -> RotaryTable:
        return RotaryTable(torch.ones_like(out.cos), torch.zeros_like(out.sin))

    tables = {path: still for path, _ in subject.of(RopeTable)}
    masks = {path: torch.zeros_like for path, _ in subject.of(*MASKS)}

    def moved() -> float:
        return relative(subject.scores(subject.tokens[:, order]), subject.scores()[:, order])

    with subject.without({**tables, **masks}):
        apart = moved()
    with subject.without(masks):
        control = moved()
    found: list[Measurement] = []
    for kind in dict.fromkeys(subject.blocks):
        what = "order of tokens, without rotation and mask"
        found += pair(f"{kind}.attention", what, apart, "the rotation left in", control)
    return found


def later(subject: Subject) -> list[Measurement]:
    """A changed token changes nothing before it."""
    half, other = POSITIONS // 2, subject.tokens.clone()
    other[:, half] = (other[:, half] + 1) % int(subject.tokens.max())
    before, after = subject.scores(), subject.scores(other)
    apart, control = (relative(after[:, part], before[:, part]) for part in (slice(half), slice(half, None)))
    found: list[Measurement] = []
    for path, _ in subject.of(*MASKS):
        found += pair(path, "scores before a changed token", apart, "scores from that token on", control)
    return found


def biases(subject: Subject) -> list[Measurement]:
    """A linear map of zero is zero, and no parameter is called otherwise than `weight`."""
    maps = subject.of(Linear, ExpertLinear)
    with torch.no_grad():
        zero = max(float(of_zero(module).abs().max()) for _, module in maps)
        path, first = subject.of(Linear)[0]
        weight = first.get_parameter("weight")
        bias = weight.new_ones(weight.shape[0])
        biased = nn.functional.linear(weight.new_zeros(1, weight.shape[1]), weight, bias)
    named = sum(not name.endswith("weight") for name, _ in subject.model.named_parameters())
    control = float(biased.abs().max())
    return [
        *pair(subject.node(path), f"{len(maps)} linear maps of zero", zero, "a bias of one added", control),
        Measurement(where="", what="parameters that are no weight", value=float(named), bound=0.0),
    ]


def of_zero(module: Any) -> Tensor:
    """What a linear map makes of nothing; each expert of its own."""
    weight: Tensor = module.weight
    if not isinstance(module, ExpertLinear):
        out: Tensor = module(weight.new_zeros(1, weight.shape[1]))
    else:
        out = module(weight.new_zeros(1, 1, len(weight), weight.shape[2]), torch.arange(len(weight))[None, None])
    return out


def means(subject: Subject) -> list[Measurement]:
    """A constant vector keeps its sign and gets the gain: a norm that took the mean off would make it zero."""
    norms: list[tuple[str, Any]] = [(path, m) for path, m in subject.model.named_modules() if hasattr(m, "eps")]
    worst, control = 0.0, float("inf")
    with torch.no_grad():
        for _, norm in norms:
            gain = norm.weight + isinstance(norm, ZeroCenteredRMSNorm)
            constant = torch.full((1, len(gain)), 3.0, dtype=torch.float64)
            wanted = gain * 3.0 / (9.0 + norm.eps) ** 0.5
            worst = max(worst, relative(norm(constant)[0], wanted))
            centred = nn.functional.layer_norm(constant, constant.shape[1:], gain)
            control = min(control, relative(centred[0], wanted))
    where = subject.node(norms[0][0])
    return pair(where, f"{len(norms)} norms of a constant", worst, "a layer norm", control)


def caps(subject: Subject) -> list[Measurement]:
    """Features a thousand times as large give scores a thousand times as large, of attention and of the vocabulary."""
    found: list[Measurement] = []
    seen: set[str] = set()
    for made, read in [*attention_scores(subject), ("norm", "logits")]:
        if subject.node(read) not in seen:
            seen.add(subject.node(read))
            plain, large = subject.value(read), subject.value(read, {made: lambda out: out * GROWN})
            capped = CAP * torch.tanh(plain * GROWN / CAP)
            apart, control = relative(large, plain * GROWN), relative(capped, plain * GROWN)
            what = f"{GROWN:g} times what it is made of"
            found += pair(subject.node(read), what, apart, f"a cap of {CAP:g}", control)
    return found


def attention_scores(subject: Subject) -> Iterator[tuple[str, str]]:
    """The rotated queries of each block, and the scores that they make once they are masked."""
    for path, _ in subject.of(AddMask):
        yield f"{path.removesuffix('.attend.mask')}.q_rotate", path


def plain_ropes(model: Model) -> Iterator[tuple[str, nn.Module]]:
    """The containers of ours that make angles of frequencies as they are."""
    for name, rope in ropes(models.find(model.variant).build("meta")):
        if not hasattr(rope, "scale"):
            yield name, rope


def scaling(model: Model, name: str, rope: nn.Module) -> list[Measurement]:
    """The angle of a position is its number times the unscaled frequency, at the model's own head width."""
    config = models.find(model.variant).config
    made = rope.get_submodule("frequencies")
    assert isinstance(made, RopeFrequencies)
    exponents = torch.arange(0, config.head_dim, 2, dtype=torch.float64) / config.head_dim
    powers = made.theta**-exponents
    frequencies = made(torch.device("cpu"))
    at = torch.tensor([[config.max_position_embeddings - 1]])
    with torch.no_grad():
        ours = rope(at).cos
    wanted = torch.cos(at.float()[..., None] * frequencies)
    slowed = torch.cos(at.float()[..., None] * frequencies / 8)
    apart, moved = (float((value - wanted).abs().max()) for value in (ours, slowed))
    far = float((frequencies.double() / powers - 1).abs().max())
    what = "against theta to its power, relative"
    return [
        *pair(f"{name}.table", "table against its own frequencies", apart, "frequencies divided by 8", moved),
        Measurement(where=f"{name}.frequencies", what=what, value=far, bound=2.0**-21),
    ]
