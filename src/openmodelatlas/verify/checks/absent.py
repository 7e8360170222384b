"""Claims that something is *not* there, each run with a counter-example that must be noticed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from openmodelatlas import models
from openmodelatlas.catalog import find
from openmodelatlas.fetch.progress import Progress
from openmodelatlas.models.variant import Variant
from openmodelatlas.parts.linear import Linear
from openmodelatlas.parts.norm import RMSNorm
from openmodelatlas.parts.rope import RotaryTable
from openmodelatlas.records.catalog import Model
from openmodelatlas.records.verification import Measurement, Tier, VerificationRecord
from openmodelatlas.verify import located, parity, parity_run

TITLE = "what a claim says is absent is absent: scaling, biases, positions outside the rotation, sight of later tokens"
TIER: Tier = parity_run.TINY
POSITIONS = 24
NOISE = 1e-12
"""Float64, relative to the largest score; sums in another order are some hundred times nearer."""

LEAST = 1e-3
"""What a counter-example must move, relative."""


def applies(_model: Model) -> str | None:
    """Every model is said to lack something."""
    return None


def run(model: Model, progress: Progress) -> VerificationRecord:
    """Each absence, then its counter-example; a counter-example that is not noticed fails the check, too."""
    progress("looking for what must not be there", 0, 0)
    subject = Subject(parity.twin(model.variant))
    found = [*positions(subject), *later(subject), *biases(subject), *means(subject)]
    nodes, said = ["mask", "block.attention", "block.attention.q", "block.attention_norm"], []
    if not located.scaled(model):
        found += scaling(model)
        nodes.append("rope.frequencies")
        said.append("No scaling: the table is made of the frequencies as they are.")
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
        claims=[c.id for c in find.claims(model) if c.id in ("causal-mask",)],
    )


class Subject:
    """A tiny twin in float64 with random weights, and one text."""

    def __init__(self, variant: Variant) -> None:
        self.model = parity.filled(variant, parity.stored(variant), torch.float64)
        draw = torch.Generator().manual_seed(5)
        self.tokens = torch.randint(0, variant.config.vocab_size, (1, POSITIONS), generator=draw)
        self.positions = torch.arange(POSITIONS)[None]

    def scores(self, tokens: Tensor | None = None) -> Tensor:
        """One forward."""
        with torch.no_grad():
            out: Tensor = self.model(self.tokens if tokens is None else tokens, self.positions)
        return out

    @contextmanager
    def without(self, paths: dict[str, Callable[..., object]]) -> Iterator[None]:
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

    def open_(mask: Tensor) -> Tensor:
        return torch.zeros_like(mask)

    def moved() -> float:
        return relative(subject.scores(subject.tokens[:, order]), subject.scores()[:, order])

    with subject.without({"rope.table": still, "mask": open_}):
        apart = moved()
    with subject.without({"mask": open_}):
        control = moved()
    return pair("block.attention", "order of tokens, without rotation and mask", apart, "the rotation left in", control)


def later(subject: Subject) -> list[Measurement]:
    """A changed token changes nothing before it."""
    half, other = POSITIONS // 2, subject.tokens.clone()
    other[:, half] = (other[:, half] + 1) % int(subject.tokens.max())
    before, after = subject.scores(), subject.scores(other)
    return pair(
        "mask",
        "scores before a changed token",
        relative(after[:, :half], before[:, :half]),
        "scores from that token on",
        relative(after[:, half:], before[:, half:]),
    )


def biases(subject: Subject) -> list[Measurement]:
    """A linear map of zero is zero, and no parameter is called otherwise than `weight`."""
    maps = [m for m in subject.model.modules() if isinstance(m, Linear)]
    with torch.no_grad():
        zero = max(float(m(torch.zeros(1, m.in_features, dtype=torch.float64)).abs().max()) for m in maps)
        first, nothing = maps[0].weight, torch.zeros(1, maps[0].in_features, dtype=torch.float64)
        biased = nn.functional.linear(nothing, first, first[:, 0])
    named = sum(not name.endswith("weight") for name, _ in subject.model.named_parameters())
    return [
        *pair("block.attention.q", f"{len(maps)} linear maps of zero", zero, "a bias added", float(biased.abs().max())),
        Measurement(where="", what="parameters that are no weight", value=float(named), bound=0.0),
    ]


def means(subject: Subject) -> list[Measurement]:
    """A constant vector keeps its sign and gets the gain: a norm that took the mean off would make it zero."""
    norms = [m for m in subject.model.modules() if isinstance(m, RMSNorm)]
    worst, control = 0.0, float("inf")
    with torch.no_grad():
        for norm in norms:
            constant = torch.full((1, norm.weight.shape[0]), 3.0, dtype=torch.float64)
            wanted = norm.weight * 3.0 / (9.0 + norm.eps) ** 0.5
            worst = max(worst, relative(norm(constant)[0], wanted))
            centred = nn.functional.layer_norm(constant, constant.shape[1:], norm.weight)
            control = min(control, relative(centred[0], wanted))
    return pair("block.attention_norm", f"{len(norms)} norms of a constant", worst, "a layer norm", control)


def scaling(model: Model) -> list[Measurement]:
    """The angle of a position is its number times the unscaled frequency, at the model's own head width."""
    variant = models.find(model.variant)
    rope, config = variant.build("meta").get_submodule("rope"), variant.config
    exponents = torch.arange(0, config.head_dim, 2, dtype=torch.float64) / config.head_dim
    plain = config.rope_theta**-exponents
    frequencies = rope.get_submodule("frequencies")(torch.device("cpu"))
    at = torch.tensor([[config.max_position_embeddings - 1]])
    with torch.no_grad():
        ours = rope(at).cos
    wanted = torch.cos(at.float()[..., None] * frequencies)
    slowed = torch.cos(at.float()[..., None] * frequencies / 8)
    apart, moved = (float((value - wanted).abs().max()) for value in (ours, slowed))
    far = float((frequencies.double() / plain - 1).abs().max())
    what = "against theta to its power, relative"
    return [
        *pair("rope.table", "table against its own frequencies", apart, "frequencies divided by 8", moved),
        Measurement(where="rope.frequencies", what=what, value=far, bound=2.0**-21),
    ]
