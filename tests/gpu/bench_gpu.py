"""Runs cosyd.bench.gpu and writes gpu.json, gpu.md, gpu-streams.svg and gpu-memory.csv/.svg.

bench_gpu.py MODELS CACHE FOLDER [--quick]
"""

from __future__ import annotations

import sys
from pathlib import Path

from plot_gpu import streams_chart

from cosyd.bench.gpu import run_with
from cosyd.bench.report import save


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    models, cache, folder = (Path(argument) for argument in sys.argv[1:4])
    result = run_with(models, cache, "--quick" in sys.argv, say, folder / "gpu-memory.csv")
    _, page = save(result, folder)
    (folder / "gpu-streams.svg").write_text(streams_chart(result["measured"]["streams"]))
    text = page.read_text()
    charts = (
        "![Step time against streams](gpu-streams.svg)\n\n![Memory while this ran](gpu-memory.svg)\n\n"
        "The teeth are the benchmark's own: each row of streams opens a pipeline and closes it.\n"
    )
    page.write_text(text.replace("\n## ", f"\n{charts}\n## ", 1))
    say(page.read_text())
