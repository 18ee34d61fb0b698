"""How a setting is declared: its value with everything a form, a file or a validation asks about it."""

from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationInfo, field_validator


class Effect(StrEnum):
    """When a changed value is used."""

    NEW_RUN = "new run"
    RESUME = "new run or resume"
    """It does not make another experiment: a run that goes on may be given another value (`run.resume`)."""
    RESTART_RUNNER = "restart of the runner"


def setting(
    default: Any,
    description: str,
    *,
    effect: Effect = Effect.NEW_RUN,
    unit: str = "",
    to_clients: bool = False,
    secret: bool = False,
    **constraints: Any,
) -> Any:
    """Declare one setting.

    Args:
        default: The shipped value.
        description: One or two sentences for a person who sees it for the first time.
        effect: When a change takes effect.
        unit: Unit of the value, empty for plain numbers and words.
        to_clients: Whether clients receive the value through the `config` key.
        secret: Whether the value is left out of every file, log and message.
        **constraints: Bounds passed on to pydantic (`ge`, `gt`, `le`, `lt`, `min_length`, ...).
    """
    extra: dict[str, JsonValue] = {
        "effect": effect.value,
        "unit": unit,
        "to_clients": to_clients,
        "secret": secret,
    }
    return Field(default, description=description, json_schema_extra=extra, **constraints)


class Section(BaseModel):
    """A group of settings: unknown keys are refused, a built one does not change."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False, defer_build=True
    )

    @field_validator("*", mode="before")
    @classmethod
    def _no_word_for_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse `true` where a number is meant; it would pass for 1."""
        annotation = cls.model_fields[info.field_name or ""].annotation
        if isinstance(value, bool) and annotation is not bool:
            raise ValueError("should be a value of its own kind, not true or false")
        return value
