"""Chinese in one script: simplified or traditional characters, by OpenCC's tables of words and characters.

Models write whichever their training had for a sound, often both in one text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from cosyd.errors import ModelMissing

Script = Literal["simplified", "traditional"]

_TABLES: dict[Script, str] = {"simplified": "t2s", "traditional": "s2t"}


def load_script(script: Script) -> Callable[[str], str]:
    """From text to text; what is no Chinese stays. Raises ModelMissing without the library."""
    try:
        import opencc
    except ImportError as error:
        raise ModelMissing("text.script needs OpenCC; run: pip install cosyd[text]") from error
    convert: Callable[[str], str] = opencc.OpenCC(_TABLES[script]).convert
    return convert
