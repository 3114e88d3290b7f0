"""The diagram shows what it was given."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from cosyd.asr.confidence import Bin
from cosyd.bench.reliability_chart import LEFT, SIDE, TOLD, TOP, Panel, reliability_chart

SVG = "{http://www.w3.org/2000/svg}"


def test_dots_stand_where_confidence_and_share_say_and_are_as_large_as_their_words() -> None:
    told = [Bin(10, 0.0, 0.0), Bin(40, 0.5, 0.75), Bin(10, 1.0, 1.0)]
    panel = Panel("A <model> & more", [Bin(60, 0.9, 0.5)], told, 0.4, 0.1)
    root = ElementTree.fromstring(reliability_chart([panel, panel]))
    dots = [c for c in root.iter(f"{SVG}circle") if c.get("fill") == TOLD][:3]
    places = [(float(dot.get("cx", "")), float(dot.get("cy", ""))) for dot in dots]
    assert places == [(LEFT, TOP + SIDE), (LEFT + SIDE / 2, TOP + SIDE / 4), (LEFT + SIDE, TOP)]
    radii = [float(dot.get("r", "")) for dot in dots]
    assert radii[1] / radii[0] == pytest.approx(2, abs=0.05)
    texts = [text.text or "" for text in root.iter(f"{SVG}text")]
    assert texts.count("A <model> & more") == 2
    assert "told: 0.100" in texts
