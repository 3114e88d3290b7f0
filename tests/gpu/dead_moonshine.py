"""A real CUDA error under Moonshine: the request is done again on the processor; a new process is asked for.

dead_moonshine.py MODEL CACHE
"""

from __future__ import annotations

import sys
import time
import wave
from pathlib import Path

import numpy as np

from cosyd.asr.moonshine import Moonshine
from cosyd.asr.moonshine_engines import open_networks
from cosyd.asr.moonshine_healing import HealingNetworks
from cosyd.asr.recognizer import SegmentRequest
from cosyd.config.schema import GpuConfig
from cosyd.engine.cuda import CudaMemory

HEALED_S = 30.0
# Writes to an address that nobody has; the driver compiles it.
KERNEL = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry nowhere()
{
    .reg .b64 %address;
    .reg .b32 %value;
    mov.u64 %address, 64;
    mov.u32 %value, 1;
    st.global.u32 [%address], %value;
    ret;
}
\0"""


def illegal_address() -> None:
    memory = CudaMemory()  # of the same primary context
    module = memory._call("cuModuleLoadData", KERNEL)
    function = memory._call("cuModuleGetFunction", module, b"nowhere")
    memory._call("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, memory.stream, 0, 0)


def main() -> None:
    folder, cache = map(Path, sys.argv[1:3])
    renewals: list[str] = []

    def open_all(path: Path) -> HealingNetworks:
        config = GpuConfig(engine="onnxruntime", require_gpu=True)
        networks = open_networks(path, path.name, config, cache, renew=renewals.append)
        assert isinstance(networks, HealingNetworks), networks
        return networks

    with wave.open(str(folder.parent / "demo-speech" / "beckett.wav")) as file:
        audio = np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / 32_768
    request = SegmentRequest(audio)
    model, host = Moonshine.load(folder, open_networks=open_all), Moonshine.load(folder)
    before = model.transcribe([request])[0].text
    assert "cuda" in model.backend.name.lower(), model.backend
    illegal_address()
    began = time.monotonic()
    after = model.transcribe([request])[0].text
    took_s = time.monotonic() - began
    assert after == host.transcribe([request])[0].text, after
    assert "illegal" in model.backend.reason, model.backend
    while not renewals:
        assert time.monotonic() - began < HEALED_S, "nobody asked for a new process"
        model.transcribe([request])
        time.sleep(0.2)
    sys.stdout.write(
        f"GPU: {before}\nafter the error: {after}\nthe request with the error took {took_s:.2f} s; "
        f"{model.backend.reason}\nafter {time.monotonic() - began:.1f} s: {renewals[0]}\n"
    )
    model.close()
    host.close()


if __name__ == "__main__":
    main()
