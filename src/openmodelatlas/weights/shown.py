"""Names out of files, made safe to print."""


def shown(name: str) -> str:
    """A name from a file, safe to print: quoted, control characters escaped, cut at 80."""
    return repr(name if len(name) <= 80 else name[:77] + "...")


def printable(path: str) -> str:
    """A path or a list of names as it is, with control characters escaped: folders can have any names, too."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in path)
