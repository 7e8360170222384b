"""The storage types of GGUF files: how many elements make a block, and how many bytes a block takes."""

from typing import NamedTuple


class StorageType(NamedTuple):
    """`elements` share one block of `bytes` bytes."""

    name: str
    elements: int
    bytes: int


TYPES: dict[int, StorageType] = {
    0: StorageType("F32", 1, 4),
    1: StorageType("F16", 1, 2),
    2: StorageType("Q4_0", 32, 18),
    3: StorageType("Q4_1", 32, 20),
    6: StorageType("Q5_0", 32, 22),
    7: StorageType("Q5_1", 32, 24),
    8: StorageType("Q8_0", 32, 34),
    9: StorageType("Q8_1", 32, 40),
    10: StorageType("Q2_K", 256, 84),
    11: StorageType("Q3_K", 256, 110),
    12: StorageType("Q4_K", 256, 144),
    13: StorageType("Q5_K", 256, 176),
    14: StorageType("Q6_K", 256, 210),
    15: StorageType("Q8_K", 256, 292),
    16: StorageType("IQ2_XXS", 256, 66),
    17: StorageType("IQ2_XS", 256, 74),
    18: StorageType("IQ3_XXS", 256, 98),
    19: StorageType("IQ1_S", 256, 50),
    20: StorageType("IQ4_NL", 32, 18),
    21: StorageType("IQ3_S", 256, 110),
    22: StorageType("IQ2_S", 256, 82),
    23: StorageType("IQ4_XS", 256, 136),
    24: StorageType("I8", 1, 1),
    25: StorageType("I16", 1, 2),
    26: StorageType("I32", 1, 4),
    27: StorageType("I64", 1, 8),
    28: StorageType("F64", 1, 8),
    29: StorageType("IQ1_M", 256, 56),
    30: StorageType("BF16", 1, 2),
    34: StorageType("TQ1_0", 256, 54),
    35: StorageType("TQ2_0", 256, 66),
    39: StorageType("MXFP4", 32, 17),
    40: StorageType("NVFP4", 64, 36),
    41: StorageType("Q1_0", 128, 18),
}

BY_NAME = {storage.name: storage for storage in TYPES.values()}
NUMBERS = {name: number for number, (name, _, _) in TYPES.items()}
