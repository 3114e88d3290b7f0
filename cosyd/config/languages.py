"""Languages that can be asked for, by the codes of ISO 639 that Whisper knows them by."""

from __future__ import annotations

from difflib import get_close_matches

AUTO = "auto"

_CODES = """
af Afrikaans|am Amharic|ar Arabic|as Assamese|az Azerbaijani|ba Bashkir|be Belarusian|bg Bulgarian
bn Bengali|bo Tibetan|br Breton|bs Bosnian|ca Catalan|cs Czech|cy Welsh|da Danish|de German|el Greek
en English|es Spanish|et Estonian|eu Basque|fa Persian|fi Finnish|fo Faroese|fr French|gl Galician
gu Gujarati|ha Hausa|haw Hawaiian|he Hebrew|hi Hindi|hr Croatian|ht Haitian Creole|hu Hungarian
hy Armenian|id Indonesian|is Icelandic|it Italian|ja Japanese|jw Javanese|ka Georgian|kk Kazakh|km Khmer
kn Kannada|ko Korean|la Latin|lb Luxembourgish|ln Lingala|lo Lao|lt Lithuanian|lv Latvian|mg Malagasy
mi Maori|mk Macedonian|ml Malayalam|mn Mongolian|mr Marathi|ms Malay|mt Maltese|my Burmese|ne Nepali
nl Dutch|nn Nynorsk|no Norwegian|oc Occitan|pa Punjabi|pl Polish|ps Pashto|pt Portuguese|ro Romanian
ru Russian|sa Sanskrit|sd Sindhi|si Sinhala|sk Slovak|sl Slovenian|sn Shona|so Somali|sq Albanian
sr Serbian|su Sundanese|sv Swedish|sw Swahili|ta Tamil|te Telugu|tg Tajik|th Thai|tk Turkmen|tl Tagalog
tr Turkish|tt Tatar|uk Ukrainian|ur Urdu|uz Uzbek|vi Vietnamese|yi Yiddish|yo Yoruba|yue Cantonese
zh Chinese
"""
LANGUAGES: dict[str, str] = {
    code: name
    for entry in _CODES.replace("\n", "|").strip("|").split("|")
    for code, _, name in [entry.partition(" ")]
}
_ALSO = {"mandarin": "zh", "cn": "zh", "jp": "ja", "kr": "ko", "cz": "cs", "dk": "da", "gr": "el", "gb": "en"}


def codes_of(language: str) -> tuple[str, ...]:
    """The codes in a value of ``asr.language``: ``en, zh`` -> ``("en", "zh")``; of ``auto`` none."""
    return () if language == AUTO else tuple(code.strip() for code in language.split(","))


def named(language: str) -> str:
    """``zh`` -> ``Chinese (zh)``."""
    return " and ".join(f"{LANGUAGES[code]} ({code})" for code in codes_of(language))


def fault(language: str) -> str | None:
    """What is wrong with a value of ``asr.language``; None if nothing is."""
    return next(filter(None, map(_fault, codes_of(language))), None)


def _fault(code: str) -> str | None:
    if code in LANGUAGES:
        return None
    near = _nearest(code.strip().lower())
    hint = f"did you mean {near!r} ({LANGUAGES[near]})?" if near else "write a code such as en or zh, or auto"
    return f"{code!r} is no language; {hint}"


def _nearest(text: str) -> str | None:
    """The code that was meant: by another name, with a region (``zh-CN``), or misspelled."""
    by_name = {name.lower(): code for code, name in LANGUAGES.items()} | _ALSO
    region = text.replace("_", "-").partition("-")[0]
    if region in LANGUAGES:
        return region
    close = get_close_matches(text, [*by_name, *LANGUAGES], 1, cutoff=0.7)
    return by_name.get(close[0], close[0]) if close else None
