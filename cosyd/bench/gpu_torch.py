"""The same networks in PyTorch, eager, for comparison: DTLN for one hop, Silero for one chunk, one batch."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from cosyd.gpu.weights import DtlnWeights, Lstm, VadWeights
from cosyd.spec import FRAME


class TorchNetworks:
    """Weights on the GPU, states for ``batch`` streams, FP32 (TF32 off)."""

    def __init__(self, dtln: DtlnWeights, vad: VadWeights, batch: int) -> None:
        self.torch = torch = importlib.import_module("torch")
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        self._batch = batch
        self._lstms = [self._lstm(w) for w in (*dtln.lstm, vad.lstm)]
        self._states = [self._zeros() for _ in self._lstms]
        self._mask, self._refine = ([self._put(a) for a in pair] for pair in (dtln.mask, dtln.refine))
        self._basis, self._inverse = self._put(dtln.basis), self._put(dtln.inverse)
        self._norm = [self._put(a) for a in dtln.norm[:2]]
        self._epsilon = dtln.norm[2]
        self._window = self._put(vad.window)
        self._convolutions = [(self._put(k), self._put(b)) for k, b in vad.convolutions]
        self._output = self._put(vad.output[0]), vad.output[1]
        self._sum = torch.zeros(batch, FRAME.window, device="cuda")

    def _put(self, values: Any) -> Any:
        return self.torch.from_numpy(np.ascontiguousarray(values, np.float32)).cuda()

    def _zeros(self) -> tuple[Any, Any]:
        return tuple(self.torch.zeros(1, self._batch, 128, device="cuda") for _ in range(2))

    def _lstm(self, w: Lstm) -> Any:
        layer = self.torch.nn.LSTM(len(w.inputs), 128, batch_first=True).cuda().requires_grad_(False)
        layer.weight_ih_l0.copy_(self._put(w.inputs.reshape(len(w.inputs), -1).T))
        layer.weight_hh_l0.copy_(self._put(w.hidden.reshape(128, -1).T))
        layer.bias_ih_l0.copy_(self._put(w.bias.reshape(-1)))
        layer.bias_hh_l0.zero_()
        layer.flatten_parameters()
        return layer

    def _recur(self, index: int, x: Any) -> Any:
        y, self._states[index] = self._lstms[index](x[:, None], self._states[index])
        return y[:, 0]

    def denoise(self, frames: Any) -> Any:
        """[batch, window] -> the hop that is complete, [batch, hop]."""
        torch = self.torch
        spectrum = torch.fft.rfft(frames)
        kernel, bias = self._mask
        mask = torch.sigmoid(self._recur(1, self._recur(0, spectrum.abs())) @ kernel + bias)
        features = torch.fft.irfft(spectrum * mask, FRAME.window) @ self._basis
        normal = torch.nn.functional.layer_norm(features, (256,), *self._norm, self._epsilon)
        kernel, bias = self._refine
        mask = torch.sigmoid(self._recur(3, self._recur(2, normal)) @ kernel + bias)
        self._sum = torch.nn.functional.pad(self._sum[:, FRAME.hop :], (0, FRAME.hop))
        self._sum += (features * mask) @ self._inverse
        return self._sum[:, : FRAME.hop]

    def speech(self, chunks: Any) -> Any:
        """[batch, 576] -> probability [batch]."""
        torch = self.torch
        padded = torch.nn.functional.pad(chunks[:, None], (0, 64), mode="reflect")[:, 0]
        x = torch.fft.rfft(padded.unfold(1, 256, 128) * self._window).abs().transpose(1, 2)
        for (kernel, bias), stride in zip(self._convolutions, (1, 2, 2, 1), strict=True):
            x = torch.relu(torch.nn.functional.conv1d(x, kernel, bias, stride=stride, padding=1))
        h = torch.relu(self._recur(4, x[:, :, 0]))
        return torch.sigmoid(h @ self._output[0] + self._output[1])
