"""The whole command line in one place. Each command names the function that does the work."""

from __future__ import annotations

import argparse
from pathlib import Path

from cosyd.cli.options import (
    Commands,
    Parser,
    command,
    debug,
    degrees,
    group,
    natural,
    positive,
    with_configuration,
    with_connection,
    with_json,
    with_names,
    with_source,
)
from cosyd.config.arrays import PRESETS

DESCRIPTION = """\
cosyd hears: from microphones to text on ZeroMQ."""

EPILOG = """\
exit codes: 0 fine, 1 something was wrong, 2 wrong usage or configuration, 3 no such or unusable audio
device, 4 model missing or damaged, 5 GPU required and not usable, 130 interrupted
"""


def build_parser() -> Parser:
    parser = Parser(
        prog="cosyd",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[debug()],
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
    with_json(command(commands, "version", "print the version", "version"))
    return parser


# --- commands ------------------------------------------------------------------------------------------


def _add_pipeline(commands: Commands[Parser]) -> None:
    run = command(commands, "run", "run the daemon in the foreground", "run")
    with_configuration(run).set_defaults(is_daemon=True)
    # For programs that start a daemon of their own: the descriptor of a pipe; see cosyd.app.run.
    run.add_argument("--lifeline", type=int, metavar="FD", help=argparse.SUPPRESS)
    listen = command(commands, "listen", "show captions live in the terminal", "listen")
    with_source(with_configuration(listen))
    transcribe = command(commands, "transcribe", "turn recordings into text", "transcribe")
    transcribe.add_argument("files", metavar="FILE", nargs="+", help="any file that libsndfile reads")
    transcribe.add_argument("--realtime", action="store_true", help="at the recording's own pace")
    transcribe.add_argument("--model", metavar="NAME", help="the model to use")
    transcribe.add_argument(
        "--language",
        metavar="CODE",
        help="what is spoken, such as en or zh, or auto; brings a model that hears it if none is named",
    )
    with_json(with_configuration(transcribe), "print one final message a line, as JSON, with the file's name")


def _add_audio(commands: Commands[Parser]) -> None:
    devices = with_json(command(commands, "devices", "list the audio inputs", "devices"))
    devices.add_argument("--rates", action="store_true", help="ask each device which rates it takes")
    level = command(commands, "level", "show how loud each channel of a source is", "level")
    level.add_argument(
        "--seconds", type=positive, metavar="S", help="stop after so long; the default is Ctrl-C"
    )
    with_source(with_configuration(level))


def _add_record(commands: Commands[Parser]) -> None:
    record = command(
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
    record.add_argument("--seconds", type=positive, metavar="S", help="stop after so long; default Ctrl-C")
    record.add_argument("--out", type=Path, metavar="FILE", help=".wav or .flac; default SOURCE-TAP-TIME.wav")
    with_source(with_configuration(record))


def _add_array(commands: Commands[Parser]) -> None:
    actions = group(commands, "array", "look after a microphone array")
    show = command(actions, "show", "draw where the microphones are", "array_show")
    show.add_argument("--geometry", choices=tuple(PRESETS), help="this one instead of a source's")
    with_json(with_source(with_configuration(show)))
    odas = command(
        actions,
        "odas",
        "tell directions as ODAS does",
        "array_odas",
        "Tell directions in ODAS's JSON, on standard output or to a viewer that listens on a TCP port.",
    )
    odas.add_argument("--to", metavar="HOST:PORT", help="the viewer's address, by convention port 9000")
    with_source(with_connection(with_configuration(odas)))
    calibrate = command(
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
        type=degrees,
        metavar="DEG",
        help="claps, 1 to 3 m away in this direction of the room, instead of the room's noise",
    )
    calibrate.add_argument("--seconds", type=positive, default=10.0, metavar="S", help="default 10")
    calibrate.add_argument("--file", metavar="RECORDING", help="use this recording instead of the device")
    calibrate.add_argument("--out", type=Path, metavar="FILE", help="write here instead of conf.d")
    calibrate.add_argument("--dry-run", action="store_true", help="only show it")
    with_json(with_source(with_configuration(calibrate)))


def _add_doctor(commands: Commands[Parser]) -> None:
    doctor = command(
        commands,
        "doctor",
        "check audio, models, GPU, permissions, sockets, systemd",
        "doctor",
        "Check audio, models, GPU, permissions, sockets and systemd; say what is wrong and what to do. "
        "Exit code 1 when something has to be done.",
    )
    doctor.add_argument("--quick", action="store_true", help="do not listen to the microphones")
    with_json(with_configuration(doctor))


def _add_config(commands: Commands[Parser]) -> None:
    actions = group(commands, "config", "check and show the configuration")
    with_json(
        with_configuration(command(actions, "check", "find every fault of the configuration", "config:check"))
    )
    show = command(actions, "show", "show each value and where it comes from", "config:show")
    show.add_argument("--defaults", action="store_true", help="print a file of all defaults, with comments")
    with_json(with_configuration(show))
    command(actions, "schema", "print the JSON Schema of the configuration", "config:schema")


def _add_models(commands: Commands[Parser]) -> None:
    actions = group(commands, "models", "fetch and look after models")
    every = "all that cosyd knows"
    with_json(with_configuration(command(actions, "list", "list the models", "models:list_all")))
    with_configuration(with_names(command(actions, "pull", "fetch models", "models:pull"), every))
    verify = command(actions, "verify", "check sizes and sha256 of what is there", "models:verify")
    with_json(with_configuration(with_names(verify, "all that are there")))
    info = command(actions, "info", "tell where models come from, their licence and files", "models:info")
    with_json(with_configuration(with_names(info, every)))
    with_configuration(
        with_names(command(actions, "rm", "delete models", "models:remove"), "", required=True)
    )
    calibrate = command(
        actions,
        "calibrate",
        "make the confidences of a model's words true, from recordings with their text",
        "models_calibrate",
        "Recognise recordings whose text is known, a hundred or more such as the model will hear, and write "
        "beside the model what makes the confidences of its words true (confidence.json).",
    )
    calibrate.add_argument("model", metavar="MODEL", help="a name, or the path of a folder, as in asr.model")
    calibrate.add_argument(
        "list",
        metavar="LIST",
        type=Path,
        help="a file with FILE<tab>TEXT a line, or JSON with file and text; files beside the list",
    )
    calibrate.add_argument("--dry-run", action="store_true", help="only show what it would bring")
    with_json(with_configuration(calibrate))


def _add_daemon(commands: Commands[Parser]) -> None:
    sub = command(commands, "sub", "print events of the daemon as they come", "sub")
    sub.add_argument(
        "topics", metavar="TOPIC", nargs="*", help="TYPE or TYPE.SOURCE, such as asr.final.mic; default: all"
    )
    sub.add_argument("--count", type=natural, metavar="N", help="end after so many events")
    with_json(with_connection(with_configuration(sub)), "print each event as JSON, one a line")
    actions = group(commands, "ctl", "control the daemon")
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
    dump.add_argument("--seconds", type=positive, default=30.0, metavar="S", help="default 30")
    replay = _control(actions, "replay", "print the kept events after a sequence number")
    replay.add_argument("--since", type=natural, required=True, metavar="SEQ", help="the last event you have")
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
    keys = command(
        commands,
        "keys",
        "make CURVE keys for TCP",
        "keys",
        "Make a pair of keys in paths.keys: `server` for the daemon, any other name for a client, which is "
        "thereby admitted.",
    )
    with_configuration(keys).add_argument("name", metavar="NAME", help="server, or the name of a client")


def _control(actions: Commands[Parser], name: str, summary: str) -> Parser:
    parser = command(actions, name, summary, "ctl")
    parser.set_defaults(command=name)
    parser.add_argument("--timeout", type=positive, default=5.0, metavar="S", help="wait so long; default 5")
    with_json(with_connection(with_configuration(parser)), "print the daemon's reply as it is")
    return parser


def _add_bench(commands: Commands[Parser]) -> None:
    bench = command(commands, "bench", "measure", "bench")
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
        action="extend",
        default=[],
        help="array, echo, streaming: measure these parts anew and keep the others' results",
    )
    bench.add_argument(
        "--memory-csv",
        metavar="FILE",
        type=Path,
        help="gpu: memory and load over time, with a chart beside it",
    )
    bench.add_argument("--hours", metavar="H", type=positive, help="streaming: of audio in the endurance run")
    with_json(bench)
