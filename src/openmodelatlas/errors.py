"""The closed tree of exceptions. Every message says what, where, expected, found and what to do, on one line."""


class AtlasError(Exception):
    """Base of every error this package raises on purpose; `exit_code` is what the command line returns for it.

    `code` is the kind of finding that the error stands for, where it stands for one (`records/findings.py`)."""

    exit_code = 1

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        expected: object = None,
        found: object = None,
        fix: str | None = None,
        code: str | None = None,
    ) -> None:
        self.code = code
        self.what, self.where, self.expected, self.found, self.fix = what, where, expected, found, fix
        line = what if where is None else f"{what}: {where}"
        if expected is not None:
            line += f"; expected {expected}"
        if found is not None:
            line += f"; found {found}" if expected is None else f", found {found}"
        if fix is not None:
            line += f"; {fix}"
        super().__init__(" ".join(line.split()))


class UsageError(AtlasError):
    """The command or call cannot be understood as given."""

    exit_code = 2


class UnknownName(UsageError):
    """No model, node, tensor or checkpoint of that name; the message lists the nearest ones."""


class DefinitionError(AtlasError):
    """A definition breaks a rule of the atlas: glue in a container, an unresolved macro, a wrong page table."""


class CatalogError(AtlasError):
    """A catalogue or table file says something that cannot be right."""


class FetchError(AtlasError):
    """A file could not be obtained, or its bytes are not the pinned ones."""


class CheckpointError(AtlasError):
    """A checkpoint is understood but does not hold what it must."""


class NotACheckpoint(CheckpointError):
    """The path is missing, empty, truncated, or in no format that is read here."""

    exit_code = 2


class SiteError(AtlasError):
    """The pages cannot be written where they should stand."""


class WriteError(AtlasError):
    """A checkpoint cannot be written where it should stand."""


class InputError(AtlasError):
    """A prompt or option is outside what the model can take."""
