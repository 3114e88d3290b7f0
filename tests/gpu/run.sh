#!/bin/sh
# The GPU suite, in this order: build, compare with float64, look for bad memory accesses and races, then time.
#
#   tests/gpu/run.sh [OUTPUT] [--quick]
#
# Needs a GPU, PyCUDA, cuda-bindings, pytest, nvcc or a filled kernel cache, and the models
# (COSYD_MODELS_DIR, else the default folder). Writes OUTPUT/gpu.json, and gpu-quality.json where
# COSYD_MIXTURES names a file made by prepare_quality.py; also the page OUTPUT/gpu.md and its chart too.
set -eu
cd "$(dirname "$0")/../.."
output=${1:-docs/benchmarks}
quick=${2:-}
python=${PYTHON:-python3}
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
export COSYD_KERNEL_CACHE="${COSYD_KERNEL_CACHE:-$PWD/.cache/kernels}"
models=${COSYD_MODELS_DIR:-/var/lib/cosyd/models}
export COSYD_MODELS_DIR="$models"

executable=$($python -c 'import sys; print(sys.executable)')

echo "== build"
$python -c "
from pathlib import Path
import os
from cosyd.gpu.driver import Gpu
from cosyd.gpu.kernels import NAMES
with Gpu(Path(os.environ['COSYD_KERNEL_CACHE'])) as gpu:
    print(gpu.name, f'sm_{gpu.arch}', [name for name in NAMES if gpu.module(name)])
"
echo "== parity"
$python -m pytest tests/parity -q -p no:cacheprovider

sanitizer=$(command -v compute-sanitizer || true)
if [ -n "$sanitizer" ]; then
    # API errors are left out: cuda-bindings asks the driver for functions that it may not have.
    for tool in memcheck racecheck synccheck initcheck; do
        sanitize="$sanitizer --tool $tool --error-exitcode 9 --report-api-errors no --print-limit 3"
        echo "== compute-sanitizer $tool: the front end"
        $sanitize "$executable" tests/gpu/small_steps.py "$models" "$COSYD_KERNEL_CACHE"
        echo "== compute-sanitizer $tool: the array's kernels, the states of streams"
        $sanitize "$executable" -m pytest -q -p no:cacheprovider tests/parity/test_gpu_array.py tests/gpu/test_rows_gpu.py
    done
else
    echo "== compute-sanitizer is not installed here: NOT RUN"
fi
echo "== driver calls of a hop"
$python tests/gpu/trace_gpu.py "$models" "$COSYD_KERNEL_CACHE"
echo "== a CUDA error under running streams"
$python tests/gpu/dead_gpu.py "$models" "$COSYD_KERNEL_CACHE"

echo "== engines, states of streams, features handed over (needs onnxruntime-gpu)"
$python -m pytest -q -rs -p no:cacheprovider tests/unit/engine/test_engine_contract.py tests/gpu/test_engines_cuda.py \
    tests/gpu/test_rows_gpu.py tests/gpu/test_handover_gpu.py tests/gpu/test_memory_gpu.py
if [ -d "$models/moonshine-tiny-en" ]; then
    echo "== Moonshine on the GPU, beside the CPU (needs onnxruntime-gpu)"
    $python -m pytest -q -rs -s -p no:cacheprovider tests/gpu/test_moonshine_gpu.py
    $python -m pytest -q -rs -s -p no:cacheprovider tests/gpu/test_moonshine_fault_gpu.py
    echo "== the whole daemon, beside the CPU"
    $python tests/gpu/daemon_gpu.py "$models"/demo-speech/*.wav
else
    echo "== the recogniser's model is not here: the whole daemon NOT RUN"
fi

if [ -n "${COSYD_MIXTURES:-}" ]; then
    echo "== quality"
    $python tests/gpu/quality_gpu.py "$COSYD_MIXTURES" "$models" "$COSYD_KERNEL_CACHE" "$output/gpu-quality.json"
fi
echo "== time"
$python tests/gpu/bench_gpu.py "$models" "$COSYD_KERNEL_CACHE" "$output" $quick
