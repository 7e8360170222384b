"""How wide text is, from a table: diagrams must not depend on which browser or font measures them.

The advance widths are those of a common grotesque, in thousandths of the font size; the margin covers its relatives
that run a little wider.
"""

_WIDTHS = {
    278: " !,-./:;fItI[]\\", 355: '"', 556: "#$0123456789?abdeghnopqu_L", 889: "%", 667: "&ABEKPSVXY", 191: "'",
    333: "()-r", 389: "*", 584: "+<=>×", 1015: "@", 722: "CDHNRUw", 611: "FTZ", 778: "GOQ", 500: "Jcksvxyz",
    833: "Mm", 944: "W", 222: "ijl",
}  # fmt: skip
_TABLE = {char: width for width, chars in _WIDTHS.items() for char in chars}
_OTHER = 600
_MARGIN = 1.05
_BOLD = 1.06


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """Width in pixels of `text` at a font size, rather too wide than too narrow."""
    units = sum(_TABLE.get(char, _OTHER) for char in text)
    return units * size / 1000 * _MARGIN * (_BOLD if bold else 1.0)
