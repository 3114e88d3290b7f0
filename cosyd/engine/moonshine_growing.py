"""Moonshine's encoder for audio that grows: the frames that it has heard are not worked out again.

The published encoder lets every frame look at every other one, so each new word would mean all of the audio
once more. Here a run takes the samples from some frame on and, as inputs, what the frames before that one
are to the others: their keys and values in each layer, as they were when they were worked out, when a second
or so after them had been heard. Without any it is the encoder of ``moonshine_lean``, value for value.

* ``input_values`` [1, samples], whose first frame is frame ``past``;
* ``past_key_values.LAYER.self.key|value`` [1, past, 288] -> ``present.LAYER.self.key|value``, longer by the
  new frames;
* ``sums`` [2] and ``count`` [1] -> ``moments`` [2, positions]: the first convolution's output is brought to
  mean 0 and variance 1 over all of the audio. For each of its positions, ``POSITIONS`` a frame, ``moments``
  has the mean and the mean square; ``sums`` is their sum over the ``count`` positions before;
* ``present.LAYER.encoder.key|value`` [1, 8, new, 36], of the new frames, for the decoder.
"""

from __future__ import annotations

from pathlib import Path

from onnx import TensorProto

from cosyd.engine.moonshine import (
    COUNT,
    DECODER,
    ENCODER,
    HIDDEN,
    MOMENTS,
    SUMS,
    cache_names,
    past,
    present,
)
from cosyd.engine.moonshine_lean import EncoderLayers
from cosyd.engine.quantised import Published


def encoder(folder: Path) -> bytes:
    """Raises ModelMissing, ModelDamaged."""
    return GrowingLayers(Published(folder / ENCODER, ENCODER), Published(folder / DECODER, DECODER)).file()


class GrowingLayers(EncoderLayers):
    """The same of audio that grows: frames that are known come in as keys and values and stay as they are."""

    def _first_position(self) -> str:
        for name in cache_names("self"):
            self._graph.input(past(name), (1, "past", HIDDEN))
        return self._graph.add("Shape", past("0.self.key"), start=1, end=2)

    def _seen(self, index: int, keys: str, values: str) -> tuple[str, str]:
        return self._joined(f"{index}.self.key", keys), self._joined(f"{index}.self.value", values)

    def _joined(self, name: str, new: str) -> str:
        output = self._graph.output(present(name), (1, "grown", HIDDEN))
        return self._graph.add("Concat", past(name), new, axis=1, output=output)

    def _moments(self, values: str) -> tuple[str, str]:
        """Over these positions and those before."""
        graph = self._graph
        sums, count = graph.input(SUMS, (2,)), graph.input(COUNT, (1,))
        squares = graph.add("Mul", values, values)
        means = [graph.add("ReduceMean", each, axes=[1], keepdims=0) for each in (values, squares)]
        moments = graph.add("Concat", *means, axis=0, output=graph.output(MOMENTS, (2, "positions")))
        new = graph.add("ReduceSum", moments, graph.ints(1), keepdims=0)
        positions = graph.add("Cast", graph.add("Shape", moments, start=1, end=2), to=TensorProto.FLOAT)
        over = graph.add("Div", graph.add("Add", sums, new), graph.add("Add", count, positions))
        mean, square = graph.add_many("Split", [over], ["", ""], axis=0)
        return mean, self._inverse_deviation(mean, square)
