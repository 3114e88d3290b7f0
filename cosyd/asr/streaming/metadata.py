"""What an exported network says of itself: the properties of its ONNX file, read with their types."""

from __future__ import annotations

from collections.abc import Mapping

from cosyd.errors import ModelDamaged


class Metadata:
    """The properties of ``file`` (for messages). Every fault is a ModelDamaged that names the key."""

    def __init__(self, file: str, values: Mapping[str, str]) -> None:
        self.file = file
        self._values = dict(values)

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def text(self, key: str, default: str = "") -> str:
        return self._values.get(key, default).strip()

    def integer(self, key: str, least: int = 1) -> int:
        """Raises ModelDamaged when there is no such key, or no number of at least ``least`` in it."""
        numbers = self._numbers(key, least)
        if len(numbers) != 1:
            raise self._wrong(key, f"must be a number of at least {least}")
        return numbers[0]

    def integers(self, key: str, count: int | None = None) -> tuple[int, ...]:
        """A comma list of positive numbers; ``count`` of them, where that is known."""
        numbers = self._numbers(key, 1)
        if count is not None and len(numbers) != count:
            raise self._wrong(key, f"must have {count} numbers")
        return numbers

    def _numbers(self, key: str, least: int) -> tuple[int, ...]:
        if key not in self._values:
            raise ModelDamaged(f"{self.file}: its metadata has no {key}; export the model again")
        try:
            numbers = tuple(int(part) for part in self._values[key].split(","))
        except ValueError:
            raise self._wrong(key, "must be whole numbers") from None
        if any(number < least for number in numbers):
            raise self._wrong(key, f"must be at least {least}")
        return numbers

    def _wrong(self, key: str, rule: str) -> ModelDamaged:
        return ModelDamaged(
            f"{self.file}: metadata {key}={self._values[key]!r} {rule}; export the model again"
        )
