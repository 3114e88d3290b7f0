"""ONNX Runtime on CUDA: on our stream, over our pointers, in the primary context that all of us share."""

from __future__ import annotations

from pathlib import Path

from cosyd.engine.cuda import CudaMemory
from cosyd.engine.ort import OrtEngine
from cosyd.errors import ModelError
from cosyd.models.onnx import available_providers, open_session
from cosyd.types import Backend

PROVIDER = "CUDAExecutionProvider"


class CudaProviderMissing(ModelError):
    """This ONNX Runtime cannot use the GPU; the message says why."""


def open_ort_cuda(
    model: Path | bytes,
    memory: CudaMemory,
    *,
    stream: int | None = None,
    limit_bytes: int = 0,
    name: str | None = None,
    reason: str = "ONNX Runtime on the GPU",
) -> OrtEngine:
    """An ONNX file on ``memory``'s GPU. ``stream``: where all its work is enqueued; None: the memory's own.

    ``limit_bytes``: most device memory for its own use, 0 for no limit. Raises ModelMissing, ModelDamaged,
    CudaProviderMissing (also when the provider is there and its libraries are not: ONNX Runtime would take
    the processor without a word).
    """
    why = missing_provider()
    if why is not None:
        raise CudaProviderMissing(why)
    chosen = memory.stream if stream is None else stream
    options = _options(memory.index, chosen, limit_bytes)
    network = open_session(model, providers=((PROVIDER, options), "CPUExecutionProvider"), name=name)
    if network.device != "CUDA":
        raise CudaProviderMissing(
            "onnxruntime's CUDA provider does not load: CUDA or cuDNN is missing or of another version"
        )
    return OrtEngine(network, memory, Backend("onnxruntime CUDA", reason), chosen)


def _options(device: int, stream: int, limit_bytes: int) -> dict[str, str]:
    """Of the provider."""
    options = {
        "device_id": str(device),
        "user_compute_stream": str(stream),
        # Batches vary from step to step. Measured on an H200 with 1 to 64 streams in turn (docs/engines.md):
        # searching exhaustively is done anew for each change, 21 ms a step instead of 5 to 9; an arena that
        # grows by what is asked for keeps a piece of each size, 6 GiB instead of 1.4.
        "cudnn_conv_algo_search": "HEURISTIC",
        "arena_extend_strategy": "kNextPowerOfTwo",
        "do_copy_in_default_stream": "1",
        "use_tf32": "0",  # float32 is float32: 10-bit mantissas put a small recurrent network off by 1e-3
    }
    if limit_bytes:
        options["gpu_mem_limit"] = str(limit_bytes)
    return options


def missing_provider() -> str | None:
    """Why there is no CUDA provider; None if there is one."""
    if PROVIDER in available_providers():
        return None
    return "this onnxruntime has no CUDA provider: install onnxruntime-gpu, on a Jetson NVIDIA's own wheel"
