"""``cosyd ctl``: one request to the daemon, its reply for people or as it is."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from cosyd.cli.common import aligned, note, print_json, print_line, printable
from cosyd.cli.describe import describe
from cosyd.cli.endpoints import find_daemon, open_control
from cosyd.client import ControlClient
from cosyd.errors import UsageError
from cosyd.publish.messages import from_object

Reply = dict[str, Any]
HOTWORD_VERBS = ("add", "remove", "set", "list", "clear")
FAULT = 1  # the daemon answered, but did not do all of what was asked


def run(args: Namespace) -> int:
    with open_control(find_daemon(args)) as control:
        if args.command == "replay":
            return _replay(args, control)
        reply = control.request(args.command, _parameters(args), timeout_s=args.timeout)
    if args.json:
        print_json({"ok": True, **reply})
    else:
        for line in _SHOWN[args.command](reply):
            print_line(printable(line))
    return FAULT if reply.get("rejected") else 0


def _parameters(args: Namespace) -> dict[str, object]:
    if args.command in ("mute", "unmute"):
        return {"source": args.source}
    if args.command == "dump":
        return {"source": args.source, "seconds": args.seconds}
    if args.command == "hotwords":
        return _hotwords_asked(args)
    return {}


def _hotwords_asked(args: Namespace) -> dict[str, object]:
    """``add|remove|set PHRASE…``, ``clear`` and ``list``; phrases without a verb are set."""
    verb, *phrases = args.phrases or ["clear" if args.clear else "list"]
    if verb not in HOTWORD_VERBS:
        verb, phrases = "set", args.phrases
    if (args.clear and args.phrases) or (verb in ("clear", "list") and phrases):
        raise UsageError("clear and list take no phrases")
    if verb in ("add", "remove", "set") and not phrases:
        raise UsageError(f"hotwords {verb}: which phrases? (hotwords clear favours nothing)")
    changes: dict[str, dict[str, object]] = {"clear": {"set": []}, "list": {}}
    scope = {"source": args.source} if args.source else {}
    return {**changes.get(verb, {verb: phrases}), **scope}


def _replay(args: Namespace, control: ControlClient) -> int:
    """Page by page until the newest kept event; with ``--json`` one event a line."""
    for event in _events(control, args.since, args.timeout):
        if args.json:
            print_line(json.dumps(event, ensure_ascii=False))
        else:
            print_line(describe(from_object(event)))
    return 0


def _events(control: ControlClient, since: int, timeout_s: float) -> Iterator[Any]:
    more = True
    while more:
        page: Reply = control.request("replay", {"since": since}, timeout_s=timeout_s)
        yield from page["events"]
        more, since = page["more"] and page["next"] > since, page["next"]


# --- replies for people --------------------------------------------------------------------------------


def _status(reply: Reply) -> Iterator[str]:
    listening = "listening" if reply["listening"] else "not listening"
    healthy = "" if reply["healthy"] else ", not healthy"
    up = duration(reply["uptime_s"])
    yield f"cosyd {reply['version']}, {listening}{healthy}, up {up}, pid {reply['pid']}"
    yield f"model {reply['model']}"
    stages = [(f"  {name}", stage["name"], stage["reason"]) for name, stage in reply["backends"].items()]
    yield from aligned(stages) if stages else ()
    for source in reply["sources"]:
        yield from _source(source, reply["backends"])
    for worker in reply["workers"]:
        yield from _worker(worker)
    publisher = reply["publisher"]
    yield f"published {publisher['seq']} events at {publisher['address']}"
    if publisher["unjournalled"]:
        yield f"  {publisher['unjournalled']} events could not be journalled"


def _source(source: Reply, usual: Reply) -> Iterator[str]:
    reason = f": {source['reason']}" if source["reason"] else ""
    yield f"source {source['name']}: {source['status']}{reason}"
    if source["rate_hz"]:
        yield f"  {source['device']}, {source['rate_hz']} Hz, {source['channels']} ch, {source['format']}"
        drift = f", drift {source['drift_ppm']:+.0f} ppm" if source["drift_ppm"] is not None else ""
        yield (
            f"  {duration(source['sample'] / source['rate_hz'])} heard, {source['behind_s']:.2f} s behind, "
            f"speech {source['vad_prob']:.2f}{drift}"
        )
    for stage, backend in source.get("backends", {}).items():
        if backend != usual.get(stage):
            yield f"  {stage} runs on {backend['name']}: {backend['reason']}"
    yield from (f"  {fault}" for fault in source.get("faults", ()))
    if source["overruns"] or source["lost_frames"]:
        yield f"  {source['overruns']} overruns, {source['lost_frames']} frames lost"


def _worker(worker: Reply) -> Iterator[str]:
    restarts = f", {worker['restarts']} restarts" if worker["restarts"] else ""
    loop = ", keeps crashing" if worker["crash_loop"] else ""
    yield f"worker {worker['name']}: {worker['state']}{restarts}{loop}"
    if worker["last_error"]:
        yield f"  {worker['last_error']}"


def _reload(reply: Reply) -> Iterator[str]:
    for problem in reply["rejected"]:
        yield f"rejected: {problem}"
    for key in reply["applied"]:
        yield f"applied: {key}"
    for key in reply["needs_restart"]:
        yield f"needs a restart: {key}"
    if reply["rejected"]:
        note("nothing was changed")
    elif not reply["applied"] and not reply["needs_restart"]:
        yield "nothing to change"


def _muted(reply: Reply) -> Iterator[str]:
    word = "muted" if reply["muted"] else "recognised again"
    yield from (f"{name}: {word}" for name in reply["sources"])


def _hotwords(reply: Reply) -> Iterator[str]:
    for item in reply["rejected"]:
        yield f"rejected: {item['phrase']}: {item['reason']}"
    yield from (f"accepted: {phrase}" for phrase in reply["accepted"])
    yield f"in effect: {', '.join(reply['hotwords']) or 'none'}"
    for source, hotwords in reply.get("sources", {}).items():
        yield f"on {source} besides: {', '.join(hotwords)}"


def _dump(reply: Reply) -> Iterator[str]:
    yield from reply["files"]


def _shutdown(_: Reply) -> Iterator[str]:
    yield "the daemon is ending"


_SHOWN: dict[str, Callable[[Reply], Iterable[str]]] = {
    "status": _status,
    "reload": _reload,
    "mute": _muted,
    "unmute": _muted,
    "hotwords": _hotwords,
    "dump": _dump,
    "shutdown": _shutdown,
}


def duration(seconds: float) -> str:
    """``42.1 s``, ``3:05``, ``2:03:05``."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
