"""What sections of the configuration are made of: frozen models whose keys are *live* or *restart*."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field


def live(default: Any, description: str, **bounds: Any) -> Any:
    """A key that a reload applies at once."""
    return Field(default, description=description, json_schema_extra={"reload": "live"}, **bounds)


def restart(default: Any, description: str, **bounds: Any) -> Any:
    """A key that takes effect at the next start."""
    return Field(default, description=description, json_schema_extra={"reload": "restart"}, **bounds)


class Section(BaseModel):
    """Unknown keys are errors, values are immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)


Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")]
