"""Names and texts out of files, made safe to print."""

LONGEST = 80


def shown(text: str) -> str:
    """A text from a file: quoted, characters that do not print escaped, cut at 80."""
    return repr(text if len(text) <= LONGEST else text[: LONGEST - 3] + "...")


def printable(path: str) -> str:
    """A path or a list of names as it is, with control characters escaped: folders can have any names, too."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in path)
