"""The whole command line in one place. Each command names the function that does the work."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NoReturn

from cosyd.config.arrays import PRESETS
from cosyd.errors import UsageError

DESCRIPTION = """\
cosyd hears: from microphones to text on ZeroMQ."""

EPILOG = """\
exit codes: 0 fine, 1 something was wrong, 2 wrong usage or configuration, 3 no such or unusable audio
device, 4 model missing or damaged, 5 GPU required and not usable, 130 interrupted
"""


class Parser(argparse.ArgumentParser):
    """Faults are UsageErrors, so that they look like all other errors."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see: {self.prog} --help")


Commands = argparse._SubParsersAction  # the class has no public name


def build_parser() -> Parser:
    parser = Parser(
        prog="cosyd",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[_debug()],
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=Parser)
    _add_pipeline(commands)
    _add_audio(commands)
    _add_record(commands)
    _add_array(commands)
    _add_doctor(commands)
    _add_config(commands)
    _add_models(commands)
    _add_daemon(commands)
    _add_keys(commands)
    _add_bench(commands)
    _json(_command(commands, "version", "print the version", "version"))
    return parser


# --- options that several commands have ----------------------------------------------------------------


def _debug() -> Parser:
    """``--debug``, before or after the command. Absent it sets nothing, or one place would undo the other."""
    parent = Parser(add_help=False)
    parent.add_argument(
        "--debug", action="store_true", default=argparse.SUPPRESS, help="show tracebacks and debug messages"
    )
    return parent


def _command(commands: Commands[Parser], name: str, summary: str, work: str, details: str = "") -> Parser:
    """``work``: the module in cosyd.cli and, where it is not ``run``, the function in it."""
    parser = commands.add_parser(
        name,
        help=summary,
        description=details or summary[0].upper() + summary[1:] + ".",
        parents=[_debug()],
    )
    module, _, function = work.partition(":")
    parser.set_defaults(module=f"cosyd.cli.{module}", function=function or "run")
    return parser


def _group(commands: Commands[Parser], name: str, summary: str) -> Commands[Parser]:
    parser = commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
    return parser.add_subparsers(metavar="ACTION", required=True, parser_class=Parser)


def _configuration(parser: Parser) -> Parser:
    parser.add_argument(
        "-c",
        "--config",
        metavar="FILE",
        action="append",
        default=[],
        help="read this file instead of the usual ones; may be given several times, later ones win",
    )
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        dest="overrides",
        help="set one key, such as vad.threshold=0.5 or sources.mic.device=2",
    )
    return parser


def _json(parser: Parser, what: str = "print JSON") -> Parser:
    parser.add_argument("--json", action="store_true", help=what)
    return parser


def _source(parser: Parser) -> Parser:
    parser.add_argument("--source", metavar="NAME", help="the source to use; the default is the first")
    return parser


def _connect(parser: Parser) -> Parser:
    parser.add_argument(
        "--connect", metavar="ADDR", help="address of the daemon; the default is the one configured here"
    )
    keys = "CURVE over TCP: "
    parser.add_argument(
        "--key",
        type=Path,
        metavar="FILE",
        help=keys + "own secret key; default: client.key_secret in paths.keys",
    )
    parser.add_argument(
        "--server-key",
        type=Path,
        metavar="FILE",
        help=keys + "the daemon's server.key; default: in paths.keys",
    )
    return parser


def _names(parser: Parser, default: str, required: bool = False) -> Parser:
    parser.add_argument(
        "names", metavar="NAME", nargs="+" if required else "*", help=f"models; the default is {default}"
    )
    return parser


# --- commands ------------------------------------------------------------------------------------------


def _add_pipeline(commands: Commands[Parser]) -> None:
    run = _command(commands, "run", "run the daemon in the foreground", "run")
    _configuration(run).set_defaults(is_daemon=True)
    # For programs that start a daemon of their own: the descriptor of a pipe; see cosyd.app.run.
    run.add_argument("--lifeline", type=int, metavar="FD", help=argparse.SUPPRESS)
    listen = _command(commands, "listen", "show captions live in the terminal", "listen")
    _source(_configuration(listen))
    transcribe = _command(commands, "transcribe", "turn recordings into text", "transcribe")
    transcribe.add_argument("files", metavar="FILE", nargs="+", help="any file that libsndfile reads")
    transcribe.add_argument("--realtime", action="store_true", help="at the recording's own pace")
    transcribe.add_argument("--model", metavar="NAME", help="the model to use")
    transcribe.add_argument(
        "--language",
        metavar="CODE",
        help="what is spoken, such as en or zh, or auto; brings a model that hears it if none is named",
    )
    _json(_configuration(transcribe), "print one final message a line, as JSON, with the file's name")


def _add_audio(commands: Commands[Parser]) -> None:
    devices = _json(_command(commands, "devices", "list the audio inputs", "devices"))
    devices.add_argument("--rates", action="store_true", help="ask each device which rates it takes")
    level = _command(commands, "level", "show how loud each channel of a source is", "level")
    level.add_argument(
        "--seconds", type=_positive, metavar="S", help="stop after so long; the default is Ctrl-C"
    )
    _source(_configuration(level))


def _add_record(commands: Commands[Parser]) -> None:
    record = _command(
        commands,
        "record",
        "write a source to a WAV or FLAC file, with exact time",
        "record",
        "Record a source, beside the daemon where it runs, and write when it was beside the file.",
    )
    record.add_argument("--file", metavar="RECORDING", help="use this recording instead of the device")
    record.add_argument(
        "--tap",
        choices=("raw", "echo", "mono", "asr"),
        default="raw",
        help="raw: all channels as the device gives them (default); echo: the first microphone after echo "
        "cancellation; mono: the beam, or the mix; asr: what the recogniser hears",
    )
    record.add_argument("--seconds", type=_positive, metavar="S", help="stop after so long; default Ctrl-C")
    record.add_argument("--out", type=Path, metavar="FILE", help=".wav or .flac; default SOURCE-TAP-TIME.wav")
    _source(_configuration(record))


def _add_array(commands: Commands[Parser]) -> None:
    actions = _group(commands, "array", "look after a microphone array")
    show = _command(actions, "show", "draw where the microphones are", "array_show")
    show.add_argument("--geometry", choices=tuple(PRESETS), help="this one instead of a source's")
    _json(_source(_configuration(show)))
    odas = _command(
        actions,
        "odas",
        "tell directions as ODAS does",
        "array_odas",
        "Tell directions in ODAS's JSON, on standard output or to a viewer that listens on a TCP port.",
    )
    odas.add_argument("--to", metavar="HOST:PORT", help="the viewer's address, by convention port 9000")
    _source(_connect(_configuration(odas)))
    calibrate = _command(
        actions,
        "calibrate",
        "measure gains and delays of the microphones, and keep them in the configuration",
        "array_calibrate",
        "Listen to the noise of the room (nobody speaks), or with --from to a few sharp claps, and write the "
        "gains and delays of the microphones to a file in conf.d. Other files stay as they are.",
    )
    calibrate.add_argument(
        "--from",
        dest="azimuth",
        type=_degrees,
        metavar="DEG",
        help="claps, 1 to 3 m away in this direction of the room, instead of the room's noise",
    )
    calibrate.add_argument("--seconds", type=_positive, default=10.0, metavar="S", help="default 10")
    calibrate.add_argument("--file", metavar="RECORDING", help="use this recording instead of the device")
    calibrate.add_argument("--out", type=Path, metavar="FILE", help="write here instead of conf.d")
    calibrate.add_argument("--dry-run", action="store_true", help="only show it")
    _json(_source(_configuration(calibrate)))


def _add_doctor(commands: Commands[Parser]) -> None:
    doctor = _command(
        commands,
        "doctor",
        "check audio, models, GPU, permissions, sockets, systemd",
        "doctor",
        "Check audio, models, GPU, permissions, sockets and systemd; say what is wrong and what to do. "
        "Exit code 1 when something has to be done.",
    )
    doctor.add_argument("--quick", action="store_true", help="do not listen to the microphones")
    _json(_configuration(doctor))


def _add_config(commands: Commands[Parser]) -> None:
    actions = _group(commands, "config", "check and show the configuration")
    _json(_configuration(_command(actions, "check", "find every fault of the configuration", "config:check")))
    show = _command(actions, "show", "show each value and where it comes from", "config:show")
    show.add_argument("--defaults", action="store_true", help="print a file of all defaults, with comments")
    _json(_configuration(show))
    _command(actions, "schema", "print the JSON Schema of the configuration", "config:schema")


def _add_models(commands: Commands[Parser]) -> None:
    actions = _group(commands, "models", "fetch and look after models")
    every = "all that cosyd knows"
    _json(_configuration(_command(actions, "list", "list the models", "models:list_all")))
    _configuration(_names(_command(actions, "pull", "fetch models", "models:pull"), every))
    verify = _command(actions, "verify", "check sizes and sha256 of what is there", "models:verify")
    _json(_configuration(_names(verify, "all that are there")))
    info = _command(actions, "info", "tell where models come from, their licence and files", "models:info")
    _json(_configuration(_names(info, every)))
    _configuration(_names(_command(actions, "rm", "delete models", "models:remove"), "", required=True))


def _add_daemon(commands: Commands[Parser]) -> None:
    sub = _command(commands, "sub", "print events of the daemon as they come", "sub")
    sub.add_argument(
        "topics", metavar="TOPIC", nargs="*", help="TYPE or TYPE.SOURCE, such as asr.final.mic; default: all"
    )
    sub.add_argument("--count", type=_natural, metavar="N", help="end after so many events")
    _json(_connect(_configuration(sub)), "print each event as JSON, one a line")
    actions = _group(commands, "ctl", "control the daemon")
    for name, summary in (
        ("status", "show how the daemon is"),
        ("reload", "read the configuration again"),
        ("shutdown", "end the daemon"),
    ):
        _control(actions, name, summary)
    for name, summary in (("mute", "stop recognising a source"), ("unmute", "recognise a source again")):
        _control(actions, name, summary).add_argument(
            "source", nargs="?", metavar="SOURCE", help="default: all"
        )
    dump = _control(actions, "dump", "have the daemon write the last seconds of sources to files")
    dump.add_argument("source", nargs="?", metavar="SOURCE", help="default: all that are not muted")
    dump.add_argument("--seconds", type=_positive, default=30.0, metavar="S", help="default 30")
    replay = _control(actions, "replay", "print the kept events after a sequence number")
    replay.add_argument(
        "--since", type=_natural, required=True, metavar="SEQ", help="the last event you have"
    )
    hotwords = _control(actions, "hotwords", "show or change the phrases to favour")
    hotwords.add_argument(
        "phrases",
        nargs="*",
        metavar="add|remove|set|list|clear PHRASE",
        help="what to do with the list, and phrases, each optionally ending in :score",
    )
    hotwords.add_argument("--source", metavar="NAME", help="the list of one source, beside that of all")
    hotwords.add_argument("--clear", action="store_true", help="favour nothing")


def _add_keys(commands: Commands[Parser]) -> None:
    keys = _command(
        commands,
        "keys",
        "make CURVE keys for TCP",
        "keys",
        "Make a pair of keys in paths.keys: `server` for the daemon, any other name for a client, which is "
        "thereby admitted.",
    )
    _configuration(keys).add_argument("name", metavar="NAME", help="server, or the name of a client")


def _control(actions: Commands[Parser], name: str, summary: str) -> Parser:
    parser = _command(actions, name, summary, "ctl")
    parser.set_defaults(command=name)
    parser.add_argument("--timeout", type=_positive, default=5.0, metavar="S", help="wait so long; default 5")
    _json(_connect(_configuration(parser)), "print the daemon's reply as it is")
    return parser


def _add_bench(commands: Commands[Parser]) -> None:
    bench = _command(commands, "bench", "measure", "bench")
    bench.add_argument(
        "what",
        choices=(
            "ring",
            "frontend",
            "asr",
            "wer",
            "e2e",
            "gpu",
            "signals",
            "streaming",
            "array",
            "echo",
            "confidence",
            "hotwords",
            "languages",
            "words",
            "load",
            "partials",
        ),
    )
    bench.add_argument("--quick", action="store_true", help="a shorter run with less exact figures")
    bench.add_argument(
        "--only",
        metavar="PART",
        nargs="+",
        help="array, echo: measure these parts anew and keep the others' results",
    )
    bench.add_argument(
        "--memory-csv",
        metavar="FILE",
        type=Path,
        help="gpu: memory and load over time, with a chart beside it",
    )
    bench.add_argument("--hours", metavar="H", type=_positive, help="streaming: of audio in the endurance run")
    _json(bench)


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"must be a number above 0, not {text!r}")
    return value


def _degrees(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 1e9
    if not -360 <= value <= 360:
        raise argparse.ArgumentTypeError(f"must be degrees, -360 to 360, not {text!r}")
    return value


def _natural(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"must be a whole number, 0 or more, not {text!r}")
    return int(text)
