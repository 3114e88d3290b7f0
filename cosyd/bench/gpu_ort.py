"""The same networks in ONNX Runtime on CUDA, for comparison: inputs and outputs bound on the device."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np

from cosyd.frontend.dtln import BINS, UNITS, _mask_network, _refine_network
from cosyd.frontend.silero import CONTEXT
from cosyd.spec import FRAME

PROVIDERS = {"cuda": "CUDAExecutionProvider", "cpu": "CPUExecutionProvider"}


class OrtNetworks:
    """DTLN's two networks for one hop and Silero for one chunk of ``batch`` streams; states bound, too.

    Raises ImportError where ONNX Runtime has no such provider.
    """

    def __init__(self, models: Path, batch: int, device: str = "cuda") -> None:
        ort: Any = importlib.import_module("onnxruntime")
        if PROVIDERS[device] not in ort.get_available_providers():
            raise ImportError(f"this onnxruntime has no {PROVIDERS[device]}")
        self.version: str = ort.__version__
        self._ort, self._device = ort, device
        states = {f"{kind}{layer}": (1, batch, UNITS) for layer in range(2) for kind in "hc"}
        folder = models / "dtln"
        self._mask = self._bind(_mask_network(folder / "model_1.onnx"), {"x": (1, batch, BINS), **states})
        self._refine = self._bind(
            _refine_network(folder / "model_2.onnx"), {"x": (1, batch, FRAME.window), **states}
        )
        vad = {"input": (batch, CONTEXT + FRAME.block), "state": (2, batch, UNITS)}
        self._vad = self._bind((models / "silero-vad-6" / "silero_vad_16k_op15.onnx").read_bytes(), vad)

    def _bind(self, network: bytes, inputs: dict[str, tuple[int, ...]]) -> tuple[Any, Any]:
        """A session and its binding: noise on the device in, whatever comes out stays there."""
        options = {"use_tf32": "0"} if self._device == "cuda" else {}  # FP32, as ours and PyTorch's
        session = self._ort.InferenceSession(network, providers=[(PROVIDERS[self._device], options)])
        if session.get_providers()[0] != PROVIDERS[self._device]:
            raise ImportError(f"ONNX Runtime fell back to {session.get_providers()[0]}")
        binding, rng = session.io_binding(), np.random.default_rng(0)
        for name, shape in inputs.items():
            values = (rng.standard_normal(shape) * 0.1).astype(np.float32)
            binding.bind_ortvalue_input(name, self._ort.OrtValue.ortvalue_from_numpy(values, self._device, 0))
        if "sr" in {one.name for one in session.get_inputs()}:
            rate = np.array(FRAME.rate_hz, np.int64)
            binding.bind_ortvalue_input("sr", self._ort.OrtValue.ortvalue_from_numpy(rate, "cpu"))
        for one in session.get_outputs():
            binding.bind_output(one.name, self._device)
        return session, binding

    def denoise(self) -> None:
        """One hop through both networks, without the transforms between them. Waits for the result."""
        self._run(self._mask)
        self._run(self._refine)

    def speech(self) -> None:
        """One chunk."""
        self._run(self._vad)

    def _run(self, bound: tuple[Any, Any]) -> None:
        session, binding = bound
        session.run_with_iobinding(binding)
        binding.synchronize_outputs()
