"""Tokens and texts out of files, made safe to print."""


def shown(text: str) -> str:
    """A text from a file, safe to print: quoted, control characters escaped, cut at 60."""
    return ascii(text if len(text) <= 60 else text[:57] + "...") if not text.isprintable() else repr(text[:60])
