"""How the entries of a vocabulary write bytes: byte by byte in stand-in characters, or as text with marks."""

import re
from abc import ABC, abstractmethod

MARK = "\N{LOWER ONE EIGHTH BLOCK}"
"""What stands for a space in a SentencePiece vocabulary."""

BYTE = re.compile(r"<0x([0-9A-F]{2})>")


def _bytes_by_character() -> dict[str, int]:
    """The byte that each character of a byte-level vocabulary stands for: printable ones for themselves, the others
    moved past 255 in order."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    moved = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + n): byte for n, byte in enumerate(moved)}


BYTES = _bytes_by_character()
CHARACTERS = [character for character, _ in sorted(BYTES.items(), key=lambda pair: pair[1])]
"""The character that stands for each byte."""


def spelled(raw: bytes) -> str:
    """Bytes as a byte-level vocabulary writes them."""
    return "".join(CHARACTERS[byte] for byte in raw)


class Spelling(ABC):
    """What an entry stands for. `space_at_start`: encoding puts a space before text, and decoding takes it away."""

    space_at_start = False

    @abstractmethod
    def joined(self, entry: str) -> bytes:
        """The bytes of an entry that merging makes."""

    def added(self, entry: str) -> bytes:
        """The bytes of an entry that stands for itself."""
        return entry.encode()

    @abstractmethod
    def byte_entry(self, byte: int) -> str:
        """The entry for one byte."""


class ByteSpelling(Spelling):
    """Every byte is a character of its own."""

    def joined(self, entry: str) -> bytes:
        if any(character not in BYTES for character in entry):
            return entry.encode()
        return bytes(BYTES[character] for character in entry)

    def byte_entry(self, byte: int) -> str:
        return CHARACTERS[byte]


class MarkSpelling(Spelling):
    """Text with a mark for each space; bytes that have no other entry as `<0xNN>`."""

    def __init__(self, *, space_at_start: bool) -> None:
        self.space_at_start = space_at_start

    def joined(self, entry: str) -> bytes:
        if match := BYTE.fullmatch(entry):
            return bytes([int(match[1], 16)])
        return entry.replace(MARK, " ").encode()

    def added(self, entry: str) -> bytes:
        return entry.replace(MARK, " ").encode()

    def byte_entry(self, byte: int) -> str:
        return f"<0x{byte:02X}>"
