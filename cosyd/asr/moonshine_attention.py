"""Where the decoder looks: cross-attention as outputs of a network that was published without them.

In the branch that goes on from a cache, Moonshine's decoder hands the encoder's keys through unchanged, one
output a layer, and nobody reads them there. These outputs are made to carry the layer's cross-attention
instead: ``present.LAYER.encoder.key`` becomes [1, heads, tokens, frames], each row a distribution over the
frames. No weight and no operation changes, so texts stay the same to the bit.

The file is ONNX Runtime's own format, a FlatBuffer (https://flatbuffers.dev/internals/: tables whose fields
are found through a table of offsets, references as unsigned 32-bit distances forward; fields as numbered in
onnxruntime/core/flatbuffers/schema/ort.fbs). A name is replaced by writing the new one behind everything else
and pointing to it.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from cosyd.errors import ModelDamaged

_MAGIC = b"ORTM"
_SESSION_MODEL, _MODEL_GRAPH, _GRAPH_NODES, _GRAPH_OUTPUTS = 6, 18, 8, 16
_NODE_OPERATOR, _NODE_ATTRIBUTES, _ATTRIBUTE_NAME, _ATTRIBUTE_GRAPH = 14, 24, 4, 18
_CACHED = "then_branch"  # of the node If on use_cache_branch
_KEYS = re.compile(r"present\.(\d+)\.encoder\.key")
_ATTENTION = "/model/decoder/layers.{}/encoder_attn/Softmax_output_0"


def expose_attention(network: bytes) -> bytes:
    """The decoder's file, changed. Raises ModelDamaged when it is none of Moonshine's."""
    buffer = bytearray(network)
    try:
        _replace_outputs(buffer)
    except (struct.error, UnicodeDecodeError) as error:
        raise ModelDamaged(f"the decoder's file is damaged ({error}); run: cosyd models verify") from error
    return bytes(buffer)


def _replace_outputs(buffer: bytearray) -> None:
    if buffer[4:8] != _MAGIC:
        raise ModelDamaged("the decoder's file is not in ONNX Runtime's format; run: cosyd models verify")
    graph = _follow(buffer, _follow(buffer, _at(buffer, 0), _SESSION_MODEL), _MODEL_GRAPH)
    replaced = 0
    for position in list(_elements(buffer, _follow(buffer, _cached_branch(buffer, graph), _GRAPH_OUTPUTS))):
        found = _KEYS.fullmatch(_text(buffer, _at(buffer, position)))
        if found:
            _point(buffer, position, _ATTENTION.format(found[1]))
            replaced += 1
    if not replaced:
        raise ModelDamaged("the decoder hands no keys of the encoder through; run: cosyd models verify")


def _cached_branch(buffer: bytearray, graph: int) -> int:
    for node in _tables(buffer, graph, _GRAPH_NODES):
        if _text(buffer, _follow(buffer, node, _NODE_OPERATOR)) != "If":
            continue
        for attribute in _tables(buffer, node, _NODE_ATTRIBUTES):
            if _text(buffer, _follow(buffer, attribute, _ATTRIBUTE_NAME)) == _CACHED:
                return _follow(buffer, attribute, _ATTRIBUTE_GRAPH)
    raise ModelDamaged("the decoder has no branch with a cache; run: cosyd models verify")


# --- FlatBuffers: positions in the buffer ----------------------------------------------------------------


def _at(buffer: bytearray, position: int) -> int:
    """What the reference at this position points to."""
    return position + int(struct.unpack_from("<I", buffer, position)[0])


def _follow(buffer: bytearray, table: int, field: int) -> int:
    """What a field of a table points to."""
    offsets = table - struct.unpack_from("<i", buffer, table)[0]
    size = struct.unpack_from("<H", buffer, offsets)[0]
    offset = struct.unpack_from("<H", buffer, offsets + field)[0] if field < size else 0
    if not offset:
        raise struct.error(f"field {field} is missing")
    return _at(buffer, table + offset)


def _elements(buffer: bytearray, vector: int) -> Iterator[int]:
    count = struct.unpack_from("<I", buffer, vector)[0]
    yield from range(vector + 4, vector + 4 + 4 * count, 4)


def _tables(buffer: bytearray, table: int, field: int) -> Iterator[int]:
    yield from (_at(buffer, position) for position in _elements(buffer, _follow(buffer, table, field)))


def _text(buffer: bytearray, string: int) -> str:
    size = struct.unpack_from("<I", buffer, string)[0]
    return buffer[string + 4 : string + 4 + size].decode()


def _point(buffer: bytearray, position: int, text: str) -> None:
    """Have the reference at this position point to a new string."""
    buffer += bytes(-len(buffer) % 4)
    struct.pack_into("<I", buffer, position, len(buffer) - position)
    buffer += struct.pack("<I", len(text)) + text.encode() + bytes(1)
    buffer += bytes(-len(buffer) % 4)
