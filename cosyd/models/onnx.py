"""ONNX Runtime, behind one function: the only place that imports it, and it does so on first use.

What ONNX Runtime raises becomes ModelDamaged (a file it cannot load) or InferenceError (a network that
failed while running, with the shapes it was given and the device).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from cosyd.errors import InferenceError, ModelDamaged, ModelError, ModelMissing
from cosyd.models.stop import Stop, Stopped, current_stop

Array = NDArray[Any]

_LOG_ERRORS_ONLY = 3


def _runtime_errors() -> tuple[type[Exception], ...]:
    """All that ONNX Runtime throws; its exceptions have no base class of their own."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    names = (
        "EPFail Fail InvalidArgument InvalidGraph InvalidProtobuf ModelLoaded NoModel NoSuchFile "
        "NotImplemented RuntimeException"
    )
    known = (getattr(state, name, None) for name in names.split())
    return (*(kind for kind in known if kind is not None), RuntimeError, ValueError)


class Network:
    """A loaded network. ``session`` is ONNX Runtime's own, for what ``run`` does not cover."""

    def __init__(self, name: str, session: Any, errors: tuple[type[Exception], ...]) -> None:
        self.name = name
        self.session = session
        self.device = str(session.get_providers()[0]).removesuffix("ExecutionProvider")
        self.inputs: tuple[str, ...] = tuple(i.name for i in session.get_inputs())
        self.outputs: tuple[str, ...] = tuple(o.name for o in session.get_outputs())
        self._errors = errors

    def run(self, feeds: Mapping[str, Array], outputs: Sequence[str] | None = None) -> list[Array]:
        """Arrays by input name -> the named outputs (all of them by default), in that order.

        Ends with Stopped when ``current_stop`` is set, also in the middle.
        """
        stop = current_stop()
        try:
            if stop is None:
                return self.session.run(outputs, feeds)  # type: ignore[no-any-return]
            return self._run_until(stop, feeds, outputs)
        except self._errors as error:
            if stop is not None and stop.is_set:
                raise Stopped from error
            raise InferenceError(self._describe(feeds, error)) from error

    def _run_until(
        self, stop: Stop, feeds: Mapping[str, Array], outputs: Sequence[str] | None
    ) -> list[Array]:
        """ONNX Runtime looks at ``terminate`` between any two of its operations."""
        import onnxruntime

        options = onnxruntime.RunOptions()
        with stop.ended_by(lambda: setattr(options, "terminate", True)):
            return self.session.run(outputs, feeds, options)  # type: ignore[no-any-return]

    def run_bound(self, binding: Any) -> None:
        """A step over an IOBinding of ``session``; it is done on return."""
        try:
            self.session.run_with_iobinding(binding)
        except self._errors as error:
            raise InferenceError(f"{self.name} failed on {self.device}: {_first_line(error)}") from error

    def _describe(self, feeds: Mapping[str, Array], error: Exception) -> str:
        shapes = ", ".join(f"{name} {list(value.shape)}" for name, value in feeds.items())
        return f"{self.name} failed on {self.device} with {shapes}: {_first_line(error)}"


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def _options(threads: int, arena: bool) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = _LOG_ERRORS_ONLY
    # Between two blocks there are 32 ms of nothing to do; a thread that spins there burns a core for it.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    options.enable_cpu_mem_arena = arena
    options.enable_mem_pattern = arena
    return options


def available_providers() -> tuple[str, ...]:
    """What this ONNX Runtime was built with. Raises ModelError without one."""
    try:
        import onnxruntime
    except ImportError as error:
        raise ModelError(f"onnxruntime cannot be imported ({error}); run: pip install onnxruntime") from error
    return tuple(onnxruntime.get_available_providers())


def plain_onnx(model: Path | bytes, *, optimise: bool, name: str = "network") -> bytes:
    """The network as an ONNX file, also from one in ONNX Runtime's own format. Raises ModelDamaged.

    ``optimise``: constants folded and branches that are decided taken; nothing that depends on the device.
    """
    import onnxruntime

    levels = onnxruntime.GraphOptimizationLevel
    options = _options(threads=1, arena=False)
    options.graph_optimization_level = levels.ORT_ENABLE_BASIC if optimise else levels.ORT_DISABLE_ALL
    options.add_session_config_entry("session.save_model_format", "ONNX")
    source = os.fspath(model) if isinstance(model, Path) else model
    with tempfile.TemporaryDirectory(prefix="cosyd-") as folder:
        target = Path(folder, "network.onnx")
        options.optimized_model_filepath = os.fspath(target)
        try:
            onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        except _runtime_errors() as error:
            raise ModelDamaged(f"{name}: cannot be loaded: {_first_line(error)}") from error
        return target.read_bytes()


def open_session(
    model: Path | bytes,
    *,
    threads: int = 1,
    providers: Sequence[str | tuple[str, dict[str, str]]] = ("CPUExecutionProvider",),
    arena: bool = True,
    name: str | None = None,
) -> Network:
    """Load a network from a file, or from the bytes of one (then ``name`` it, for messages).

    ``arena``: keep freed memory for the next run, which pays for networks of fixed shape. Switch it off
    where shapes vary: the arena keeps a piece of every size it has ever seen and grows.
    ``providers``: names, each perhaps with its options. Raises ModelMissing, ModelDamaged, ModelError.
    """
    label = name or (model.name if isinstance(model, Path) else "network")
    if isinstance(model, Path) and not model.is_file():
        raise ModelMissing(f"{model}: not there; run: cosyd models pull")
    wanted = {each if isinstance(each, str) else each[0] for each in providers}
    missing = wanted - set(available_providers())
    if missing:
        raise ModelError(f"this onnxruntime has no {', '.join(sorted(missing))}")
    import onnxruntime

    onnxruntime.set_default_logger_severity(_LOG_ERRORS_ONLY)  # else it warns at every step on CUDA
    errors = _runtime_errors()
    source = os.fspath(model) if isinstance(model, Path) else model
    try:
        session = onnxruntime.InferenceSession(source, _options(threads, arena), providers=list(providers))
    except errors as error:
        raise ModelDamaged(
            f"{label}: cannot be loaded: {_first_line(error)}; run: cosyd models verify"
        ) from error
    return Network(label, session, errors)
