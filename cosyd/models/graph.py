"""Read the weights of an ONNX file, and make a small ONNX network of our own from them.

Networks come as their authors exported them, often for one stream and one frame at a time. Rather than
calling such a network four times a block, we take its weights and let ONNX Runtime run the same layers
over many streams and frames in one call. Only what that takes of ONNX's protobuf schema is here: a model is a
graph; a graph has nodes, constant tensors, inputs and outputs. Field numbers are those of onnx.proto3.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosyd.errors import ModelDamaged

Array = NDArray[Any]

_IR_VERSION = 8
_OPSET = 17  # the first with LayerNormalization
_FLOAT, _INT64 = 1, 7  # TensorProto.DataType
_ATTRIBUTE_FLOAT, _ATTRIBUTE_INT = 1, 2  # AttributeProto.AttributeType
_DTYPES: dict[int, str] = {_FLOAT: "<f4", 6: "<i4", _INT64: "<i8", 10: "<f2", 11: "<f8"}

# --- reading -------------------------------------------------------------------------------------------


def read_weights(path: Path) -> dict[str, Array]:
    """The constant tensors (initializers) of an ONNX file, by name. Raises ModelDamaged."""
    try:
        graph = next(value for number, value in _fields(path.read_bytes()) if number == 7)
        tensors = (_tensor(value) for number, value in _fields(_as_bytes(graph)) if number == 5)
        return dict(tensors)
    except (StopIteration, IndexError, KeyError, ValueError, TypeError, struct.error) as error:
        raise ModelDamaged(f"{path}: not an ONNX file that can be read; run: cosyd models verify") from error


def _as_bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number where a message is expected")
    return value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message: (number, integer or bytes). Fixed-width fields come as bytes."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield number, value
            continue
        size = {1: 8, 5: 4}.get(kind)
        if size is None:
            size, at = _varint(data, at)
        if at + size > len(data):
            raise ValueError("truncated")
        yield number, data[at : at + size]
        at += size


def _tensor(data: int | bytes) -> tuple[str, Array]:
    """TensorProto: 1 dims, 2 type, 4 float_data, 7 int64_data, 8 name, 9 raw_data."""
    dims: list[int] = []
    kind, name, raw = 0, "", b""
    for number, value in _fields(_as_bytes(data)):
        if number == 1:
            dims += [value] if isinstance(value, int) else _packed(value)
        elif number == 2:
            kind = int(value)
        elif number == 8:
            name = _as_bytes(value).decode()
        elif number in (4, 9):
            raw += _as_bytes(value)
        elif number == 7:
            raw += struct.pack(f"<{len(_packed(_as_bytes(value)))}Q", *_packed(_as_bytes(value)))
    return name, np.frombuffer(raw, _DTYPES[kind]).reshape(dims)


def _packed(data: bytes) -> list[int]:
    values, at = [], 0
    while at < len(data):
        value, at = _varint(data, at)
        values.append(value)
    return values


# --- writing -------------------------------------------------------------------------------------------


def _encode_varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _int(number: int, value: int) -> bytes:
    return _encode_varint(number << 3) + _encode_varint(value & 0xFFFF_FFFF_FFFF_FFFF)


def _bytes(number: int, value: bytes | str) -> bytes:
    value = value.encode() if isinstance(value, str) else value
    return _encode_varint(number << 3 | 2) + _encode_varint(len(value)) + value


def _attribute(name: str, value: int | float) -> bytes:
    """AttributeProto: 1 name, 2 f, 3 i, 20 type."""
    if isinstance(value, float):
        number = _encode_varint(2 << 3 | 5) + struct.pack("<f", value)
        return _bytes(1, name) + number + _int(20, _ATTRIBUTE_FLOAT)
    return _bytes(1, name) + _int(3, value) + _int(20, _ATTRIBUTE_INT)


def _value_info(name: str, shape: Sequence[int | str]) -> bytes:
    """ValueInfoProto of a float tensor; a name instead of a size is a free dimension."""
    dims = b"".join(_bytes(1, _int(1, d) if isinstance(d, int) else _bytes(2, d)) for d in shape)
    return _bytes(1, name) + _bytes(2, _bytes(1, _int(1, _FLOAT) + _bytes(2, dims)))


@dataclass
class GraphBuilder:
    """Collects the parts of a network; ``build`` gives the bytes of the ONNX file."""

    _nodes: list[bytes] = field(default_factory=list)
    _constants: list[bytes] = field(default_factory=list)
    _inputs: list[bytes] = field(default_factory=list)
    _outputs: list[bytes] = field(default_factory=list)

    def input(self, name: str, shape: Sequence[int | str]) -> str:
        self._inputs.append(_bytes(11, _value_info(name, shape)))
        return name

    def output(self, name: str, shape: Sequence[int | str]) -> None:
        self._outputs.append(_bytes(12, _value_info(name, shape)))

    def constant(self, name: str, value: Array) -> str:
        """A float32 or int64 tensor."""
        kind = _INT64 if value.dtype.kind == "i" else _FLOAT
        raw = np.ascontiguousarray(value, dtype=_DTYPES[kind]).tobytes()
        dims = b"".join(_int(1, size) for size in value.shape)
        self._constants.append(_bytes(5, dims + _int(2, kind) + _bytes(8, name) + _bytes(9, raw)))
        return name

    def node(
        self,
        operation: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        attributes: Mapping[str, int | float] | None = None,
    ) -> str:
        """Add an operation; returns the name of its first output. An input of "" is left out."""
        message = b"".join(_bytes(1, name) for name in inputs) + b"".join(_bytes(2, name) for name in outputs)
        message += _bytes(4, operation)
        for name, value in (attributes or {}).items():
            message += _bytes(5, _attribute(name, value))
        self._nodes.append(_bytes(1, message))
        return outputs[0]

    def build(self, name: str) -> bytes:
        graph = b"".join(self._nodes) + _bytes(2, name)
        graph += b"".join(self._constants + self._inputs + self._outputs)
        return _int(1, _IR_VERSION) + _bytes(7, graph) + _bytes(8, _int(2, _OPSET))
