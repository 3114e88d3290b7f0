"""``cosyd array show``: a plan of a microphone array."""

from __future__ import annotations

from argparse import Namespace

from cosyd.array.draw import describe, draw
from cosyd.array.geometry import Geometry
from cosyd.cli.common import note, print_json, print_table
from cosyd.cli.settings import load_config, pick_source
from cosyd.config.schema import ArrayConfig
from cosyd.errors import UsageError

ALIASING_LOW_HZ = 3_000  # speech has its consonants up to there


def run(args: Namespace) -> int:
    array = _array(args)
    geometry = Geometry.of(array)
    if args.json:
        print_json(
            {
                "positions_m": geometry.positions,
                "channels": geometry.channels,
                "reference_channels": geometry.references,
                "reference_source": array.reference_source,
                "orientation_deg": geometry.orientation_deg,
                "aliasing_hz": round(geometry.aliasing_hz),
            }
        )
        return 0
    for line in draw(geometry):
        print(line)
    rows = [
        (str(channel), *(f"{1000 * value:.1f}" for value in place))
        for channel, place in zip(geometry.channels, geometry.positions, strict=True)
    ]
    print_table(("CHANNEL", "X mm", "Y mm", "Z mm"), rows)
    for line in describe(geometry):
        print(line)
    if array.reference_source is not None:
        print(f"what it plays: source {array.reference_source}")
    if geometry.aliasing_hz < ALIASING_LOW_HZ:
        note("the microphones are far apart: above that frequency beams also let other directions through")
    return 0


def _array(args: Namespace) -> ArrayConfig:
    """The one that is named, or that of a source."""
    if args.geometry is not None:
        return ArrayConfig(geometry=args.geometry)
    config = load_config(args).config
    source = pick_source(config, args.source)
    if source.array is None:
        raise UsageError(
            f"source {source.name} is no microphone array: give it one (sources.{source.name}.array), or "
            "name one with --geometry"
        )
    return source.array
