"""Which device a configuration means, at first and after a replug (field case 2)."""

from __future__ import annotations

import pytest

from cosyd.capture.device import DeviceInfo
from cosyd.capture.resolve import find_again, find_device
from cosyd.errors import DeviceNotFound


def device(index: int, name: str, default: bool = False) -> DeviceInfo:
    return DeviceInfo(index, name, "ALSA", 2, 48_000, is_default=default)


HDMI = device(0, "HDMI: out (hw:0,3)")
ARRAY = device(2, "Array: USB Audio (hw:2,0)")
CAMERA = device(4, "Camera: USB Audio (hw:3,0)", default=True)
ALL = [HDMI, ARRAY, CAMERA]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (2, ARRAY),
        ("Camera: USB Audio (hw:3,0)", CAMERA),
        ("array", ARRAY),
        ("ARRAY: usb", ARRAY),
        (None, CAMERA),
        ("Array: USB Audio (hw:7,0)", ARRAY),  # written down before the card number changed
    ],
)
def test_finds(wanted, found):
    assert find_device(ALL, wanted) is found


def test_an_exact_name_beats_a_part_of_another():
    short, long = device(1, "mic"), device(2, "mic stereo")
    assert find_device([long, short], "mic") is short


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        (7, "no input device has index 7"),
        ("usb", "'usb' fits 2 input devices"),
        ("Blue Yeti", "no input device has 'Blue Yeti' in its name"),
    ],
)
def test_what_is_absent_or_ambiguous_lists_what_there_is(wanted, says):
    with pytest.raises(DeviceNotFound, match=says) as caught:
        find_device(ALL, wanted)
    assert "2: 'Array: USB Audio (hw:2,0)'" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_devices_at_all():
    with pytest.raises(DeviceNotFound, match="no input devices at all"):
        find_device([], None)


@pytest.mark.parametrize("wanted", [2, "array", "Array: USB Audio (hw:2,0)", None])
def test_a_replugged_device_is_known_by_its_name(wanted):
    back = device(5, "Array: USB Audio (hw:5,0)")
    now = [HDMI, device(2, "Other (hw:2,0)"), CAMERA, back]
    assert find_again(now, wanted, ARRAY) is back


def test_its_index_belongs_to_another_device_while_it_is_away():
    with pytest.raises(DeviceNotFound, match=r"'Array: USB Audio .* is not plugged in"):
        find_again([HDMI, device(2, "Other (hw:2,0)")], 2, ARRAY)


def test_another_device_may_take_over_what_was_chosen_by_name_or_by_default():
    other = device(6, "Array Pro (hw:4,0)", default=True)
    assert find_again([HDMI, other], "array", ARRAY) is other
    assert find_again([HDMI, other], None, ARRAY) is other


def test_of_two_alike_the_one_that_was_open():
    twin = device(3, "Array: USB Audio (hw:6,0)")
    assert find_again([twin, ARRAY], "array: usb audio (hw:2", ARRAY) is ARRAY
    moved = device(9, "Array: USB Audio (hw:2,0)")
    assert find_again([twin, moved], 2, ARRAY) is moved
