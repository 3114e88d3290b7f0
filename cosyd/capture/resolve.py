"""Which device the configuration means."""

from __future__ import annotations

from collections.abc import Sequence

from cosyd.capture.device import DeviceInfo, stable_name
from cosyd.errors import DeviceNotFound

Wanted = str | int | None


def find_device(devices: Sequence[DeviceInfo], wanted: Wanted) -> DeviceInfo:
    """By index, exact name, part of the name (any case), or the default input for None.

    Raises DeviceNotFound, naming what there is, if none or more than one fits.
    """
    if wanted is None:
        return _one([d for d in devices if d.is_default], "no default input device", devices)
    if isinstance(wanted, int):
        return _one([d for d in devices if d.index == wanted], f"no input device has index {wanted}", devices)
    return _by_name(devices, wanted)


def find_again(devices: Sequence[DeviceInfo], wanted: Wanted, last: DeviceInfo) -> DeviceInfo:
    """The device that was open before, wherever it is now.

    A device chosen by index is looked for by its name only: while it is away, other devices move to its
    index. One chosen by name may be replaced by another that fits the name; the default by another default.
    """
    same = [d for d in devices if d.stable_name == last.stable_name]
    identical = [d for d in same if d.name == last.name]
    if identical or same:
        candidates = identical or same
        at_index = [d for d in candidates if d.index == last.index]
        return (at_index or candidates)[0]
    if isinstance(wanted, int):
        raise DeviceNotFound(f"{last.name!r} is not plugged in; {_there_is(devices)}")
    return find_device(devices, wanted)


def _by_name(devices: Sequence[DeviceInfo], wanted: str) -> DeviceInfo:
    exact = [d for d in devices if d.name == wanted]
    if exact:
        return _one(exact, "", devices)
    # A full name from before a replug or a restart differs in the card number alone.
    replugged = [d for d in devices if d.stable_name == stable_name(wanted)]
    if len(replugged) == 1:
        return replugged[0]
    part = [d for d in devices if wanted.casefold() in d.name.casefold()]
    if len({d.name for d in part}) > 1:
        names = ", ".join(f"{d.index}: {d.name!r}" for d in part)
        raise DeviceNotFound(f"{wanted!r} fits {len(part)} input devices ({names}); give more of the name")
    return _one(part, f"no input device has {wanted!r} in its name", devices)


def _one(found: Sequence[DeviceInfo], complaint: str, devices: Sequence[DeviceInfo]) -> DeviceInfo:
    """The first: libraries list the same name once for each back end, the best one first."""
    if not found:
        raise DeviceNotFound(f"{complaint}; {_there_is(devices)}")
    return found[0]


def _there_is(devices: Sequence[DeviceInfo]) -> str:
    if not devices:
        return "there are no input devices at all (is it plugged in? may this user open it?)"
    return "there are " + ", ".join(f"{d.index}: {d.name!r}" for d in devices)
