"""A pickle read as data: the few instructions by which `torch.save` writes dictionaries of tensors, and no others.

Nothing is imported and nothing called. A pickle names the functions it wants; the handful that stand for "a tensor" are
recognised by name and recorded, any other is refused by name. What is built is only dictionaries, lists, tuples,
numbers, texts and `TensorRecord`."""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from openmodelatlas.records.findings import refusal
from openmodelatlas.records.shown import shown

STORAGE_TYPES = {
    "DoubleStorage": "F64",
    "FloatStorage": "F32",
    "HalfStorage": "F16",
    "BFloat16Storage": "BF16",
    "LongStorage": "I64",
    "IntStorage": "I32",
    "ShortStorage": "I16",
    "CharStorage": "I8",
    "ByteStorage": "U8",
    "BoolStorage": "BOOL",
    "ComplexFloatStorage": "C64",
}
NUMBER_TYPES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint8": "U8",
    "bool": "BOOL",
    "complex64": "C64",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e8m0fnu": "F8_E8M0",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
}
UNTYPED = "UntypedStorage"
MOST_DIMENSIONS = 64
LONGEST_NAME = 256
LONGEST_TEXT = 1 << 16
COUNTABLE = 1 << 63

_TENSOR, _TYPED, _PARAMETER = "_rebuild_tensor_v2", "_rebuild_tensor_v3", "_rebuild_parameter"
_FUNCTIONS = {("torch._utils", name) for name in (_TENSOR, _TYPED, _PARAMETER)}
_ORDERED = ("collections", "OrderedDict")
_U16, _I32, _U32, _U64, _F64 = (struct.Struct(form) for form in ("<H", "<i", "<I", "<Q", ">d"))


@dataclass(frozen=True)
class _Global:
    module: str
    name: str


@dataclass(frozen=True)
class _Storage:
    key: str
    type: str | None  # None: bytes, typed by the tensor
    elements: int


@dataclass(frozen=True, kw_only=True)
class TensorRecord:
    """A tensor as the pickle describes it: its part of the storage record `key`, in numbers of `type`, or in bytes for
    `elements` where the storage is `untyped`."""

    key: str
    type: str
    elements: int
    untyped: bool
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def read_pickle(data: bytes, where: str) -> Any:
    """What the pickle stands for; NotACheckpoint for any instruction, function or value beside tensors."""
    return _Machine(data, where).run()


class _Machine:
    """The stack machine that a pickle is a program of. Work and memory are in proportion to the pickle's length: no
    instruction copies or looks into what is on the stack beyond its own operands."""

    def __init__(self, data: bytes, where: str) -> None:
        self.data, self.where, self.at = data, where, 0
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []  # what stood on the stack before each open mark
        self.memo: dict[int, Any] = {}

    def run(self) -> Any:
        while True:
            code = self.take(1)[0]
            if code == ord("."):
                value = self.pop()
                if self.stack or self.below:
                    self.wrong("one value at the end", "several")
                return value
            step = _STEPS.get(code)
            if step is None:
                raise refusal("files.pickle-instruction", self.where, found=f"{bytes([code])!r} at byte {self.at - 1}")
            step(self)

    def wrong(self, expected: str, found: object = None) -> NoReturn:
        raise refusal("files.pickle-damaged", f"{self.where}, byte {self.at:,}", expected=expected, found=found)

    def take(self, count: int) -> bytes:
        if count > len(self.data) - self.at:
            self.wrong(f"{count:,} more bytes", f"{len(self.data) - self.at:,}")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, form: struct.Struct) -> Any:
        return form.unpack(self.take(form.size))[0]

    def text(self, length: int) -> str:
        if length > LONGEST_TEXT:
            self.wrong(f"a text of at most {LONGEST_TEXT:,} bytes", f"{length:,}")
        try:
            return self.take(length).decode()
        except UnicodeDecodeError:
            self.wrong("a text in UTF-8")

    def line(self) -> str:
        end = self.data.find(b"\n", self.at, self.at + LONGEST_NAME + 1)
        if end < 0:
            self.wrong(f"a name of at most {LONGEST_NAME} bytes")
        name = self.text(end - self.at)
        self.at += 1
        return name

    def pop(self) -> Any:
        if not self.stack:
            self.wrong("a value on the stack", "none")
        return self.stack.pop()

    def top(self, kind: type) -> Any:
        if not self.stack or type(self.stack[-1]) is not kind:
            self.wrong(f"a {kind.__name__} on the stack")
        return self.stack[-1]

    def marked(self) -> list[Any]:
        """What stands above the last mark, taken off with it."""
        if not self.below:
            self.wrong("a mark on the stack", "none")
        values, self.stack = self.stack, self.below.pop()
        return values

    def open_mark(self) -> None:
        self.below.append(self.stack)
        self.stack = []

    def close_tuple(self) -> None:
        values = tuple(self.marked())
        self.stack.append(values)

    def several(self, count: int) -> None:
        if len(self.stack) < count:
            self.wrong(f"{count} values on the stack", len(self.stack))
        self.stack[len(self.stack) - count :] = [tuple(self.stack[len(self.stack) - count :])]

    def whole(self) -> None:
        length = self.take(1)[0]
        if length > 8:
            self.wrong("a number of at most 64 bits", f"{length} bytes")
        self.stack.append(int.from_bytes(self.take(length), "little", signed=True))

    def keep(self, place: int) -> None:
        if not self.stack:
            self.wrong("a value to keep", "none")
        self.memo[place] = self.stack[-1]

    def fetch(self, place: int) -> None:
        if place not in self.memo:
            self.wrong(f"a value kept as {place}", "none")
        self.stack.append(self.memo[place])

    def set_items(self, pairs: list[Any]) -> None:
        target = self.top(dict)
        if len(pairs) % 2:
            self.wrong("keys with values", "a key alone")
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            if type(key) is not str:
                self.wrong("keys that are texts", type(key).__name__)
            if key in target:
                raise refusal("files.duplicate", f"{self.where}: {shown(key)}")
            target[key] = value

    def set_item(self) -> None:
        value, key = self.pop(), self.pop()
        self.set_items([key, value])

    def append(self, values: list[Any]) -> None:
        self.top(list).extend(values)

    def named(self, module: Any, name: Any) -> None:
        """A global: a function or class that the pickle asks for by name."""
        known = (module, name) in _FUNCTIONS or (module, name) == _ORDERED
        types = {"torch": {*STORAGE_TYPES, *NUMBER_TYPES}, "torch.storage": {*STORAGE_TYPES, UNTYPED}}
        if not known and not (type(module) is type(name) is str and name in types.get(module, ())):
            raise refusal("files.foreign-global", self.where, expected="tensors alone", found=shown(f"{module}.{name}"))
        self.stack.append(_Global(module, name))

    def stack_global(self) -> None:
        name, module = self.pop(), self.pop()
        if type(name) is not str or type(module) is not str:
            self.wrong("a module and a name")
        self.named(module, name)

    def reduce(self) -> None:
        arguments, function = self.pop(), self.pop()
        if type(function) is not _Global or type(arguments) is not tuple:
            self.wrong("a function and its arguments", f"{type(function).__name__}, {type(arguments).__name__}")
        if (function.module, function.name) == _ORDERED:
            if arguments:
                self.wrong("an empty OrderedDict, filled afterwards")
            self.stack.append({})
        elif function.name in (_TENSOR, _TYPED):
            self.stack.append(self.tensor(function.name == _TYPED, arguments))
        elif function.name == _PARAMETER:
            if len(arguments) != 3 or type(arguments[0]) is not TensorRecord:
                self.wrong("a parameter made of a tensor")
            self.stack.append(arguments[0])
        else:
            self.wrong("a function", function.name)

    def build(self) -> None:
        """Attributes of a dictionary, such as the versions of modules: they say nothing of tensors."""
        state = self.pop()
        self.top(dict)
        if type(state) is not dict:
            self.wrong("attributes by name", type(state).__name__)

    def persistent(self) -> None:
        """A storage: ("storage", class, key, device, number of elements)."""
        match self.pop():
            case ("storage", _Global(module=module, name=name), str(key), str(), int(elements)) if (
                module.startswith("torch") and (name == UNTYPED or name in STORAGE_TYPES) and 0 <= elements < COUNTABLE
            ):
                self.stack.append(_Storage(key, STORAGE_TYPES.get(name), elements))
            case _:
                self.wrong("a storage with its class, key and length")

    def tensor(self, typed: bool, arguments: tuple[Any, ...]) -> TensorRecord:
        """(storage, offset, shape, strides, requires_grad, hooks[, type][, ...])."""
        least = 7 if typed else 6
        if len(arguments) < least:
            self.wrong(f"a tensor of {least} arguments", len(arguments))
        storage, offset, shape, strides = arguments[:4]
        kind = storage.type if type(storage) is _Storage else None
        if typed and type(arguments[6]) is _Global:
            kind = NUMBER_TYPES.get(arguments[6].name)
        if type(storage) is not _Storage or kind is None or (typed and storage.type is not None):
            self.wrong("a storage and the type of its numbers")
        if not _counts((offset,)) or not _counts(shape) or not _counts(strides) or len(shape) != len(strides):
            self.wrong("an offset, sizes and as many strides")
        return TensorRecord(
            key=storage.key,
            type=kind,
            elements=storage.elements,
            untyped=storage.type is None,
            offset=offset,
            shape=shape,
            strides=strides,
        )


def _counts(values: Any) -> bool:
    few = type(values) is tuple and len(values) <= MOST_DIMENSIONS
    return few and all(type(value) is int and 0 <= value < COUNTABLE for value in values)


def _protocol(machine: _Machine) -> None:
    if (number := machine.take(1)[0]) not in (2, 3, 4, 5):
        machine.wrong("protocol 2 to 5", number)


_STEPS: dict[int, Callable[[_Machine], object]] = {
    0x80: _protocol,
    0x95: lambda m: m.take(8),  # a frame: where readers may read ahead to
    ord("N"): lambda m: m.stack.append(None),
    0x88: lambda m: m.stack.append(True),
    0x89: lambda m: m.stack.append(False),
    ord("J"): lambda m: m.stack.append(m.number(_I32)),
    ord("K"): lambda m: m.stack.append(m.take(1)[0]),
    ord("M"): lambda m: m.stack.append(m.number(_U16)),
    0x8A: _Machine.whole,
    ord("G"): lambda m: m.stack.append(m.number(_F64)),
    ord("X"): lambda m: m.stack.append(m.text(m.number(_U32))),
    0x8C: lambda m: m.stack.append(m.text(m.take(1)[0])),
    0x8D: lambda m: m.stack.append(m.text(m.number(_U64))),
    ord("}"): lambda m: m.stack.append({}),
    ord("]"): lambda m: m.stack.append([]),
    ord(")"): lambda m: m.stack.append(()),
    ord("("): _Machine.open_mark,
    ord("t"): _Machine.close_tuple,
    0x85: lambda m: m.several(1),
    0x86: lambda m: m.several(2),
    0x87: lambda m: m.several(3),
    ord("s"): _Machine.set_item,
    ord("u"): lambda m: m.set_items(m.marked()),
    ord("a"): lambda m: m.append([m.pop()]),
    ord("e"): lambda m: m.append(m.marked()),
    ord("q"): lambda m: m.keep(m.take(1)[0]),
    ord("r"): lambda m: m.keep(m.number(_U32)),
    0x94: lambda m: m.keep(len(m.memo)),
    ord("h"): lambda m: m.fetch(m.take(1)[0]),
    ord("j"): lambda m: m.fetch(m.number(_U32)),
    ord("c"): lambda m: m.named(m.line(), m.line()),
    0x93: _Machine.stack_global,
    ord("Q"): _Machine.persistent,
    ord("R"): _Machine.reduce,
    ord("b"): _Machine.build,
}
