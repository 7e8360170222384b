"""Names out of files, made safe to print."""


def shown(name: str) -> str:
    """A name from a file, safe to print: quoted, control characters escaped, cut at 80."""
    return repr(name if len(name) <= 80 else name[:77] + "...")
