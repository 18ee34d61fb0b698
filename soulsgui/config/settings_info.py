"""What the schema says of every setting, by dotted key."""

import reprlib
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo

from soulsgui.config.declaring import Effect, Section
from soulsgui.config.schema import Settings
from soulsgui.config.sections.agents import SHIPPED_WITH
from soulsgui.errors import ClientRegistrationError


class SettingInfo(BaseModel):
    """What the schema says of one setting.

    `shipped_with` has the other shipped values: `algorithm=sac`, say, to the one that comes with it.
    """

    model_config = ConfigDict(frozen=True)

    key: str
    description: str
    effect: Effect
    unit: str
    to_clients: bool
    secret: bool
    default: Any
    shipped_with: dict[str, Any]
    annotation: Any


def _info(key: str, field: FieldInfo) -> SettingInfo:
    extra = field.json_schema_extra
    assert isinstance(extra, dict), f"{key} is not declared with setting()"
    return SettingInfo(
        key=key,
        description=field.description or "",
        default=field.default,
        shipped_with={choice: values[key] for choice, values in SHIPPED_WITH.items() if key in values},
        annotation=field.annotation,
        effect=Effect(str(extra["effect"])),
        unit=str(extra["unit"]),
        to_clients=bool(extra["to_clients"]),
        secret=bool(extra["secret"]),
    )


def _is_section(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Section)


def all_settings() -> dict[str, SettingInfo]:
    """Return every setting by its dotted key, in the order of the file."""
    found: dict[str, SettingInfo] = {}
    for name, field in Settings.model_fields.items():
        if _is_section(field.annotation):
            section: type[Section] = field.annotation  # type: ignore[assignment]
            for inner, inner_field in section.model_fields.items():
                found[f"{name}.{inner}"] = _info(f"{name}.{inner}", inner_field)
        else:
            found[name] = _info(name, field)
    return found


def client_settings(settings: Settings) -> dict[str, Any]:
    """Return the settings that clients receive, by dotted key; never a secret."""
    dumped = settings.model_dump(mode="json")
    chosen: dict[str, Any] = {}
    for key, info in all_settings().items():
        if info.to_clients and not info.secret:
            value: Any = dumped
            for part in key.split("."):
                value = value[part]
            chosen[key] = value
    return chosen


def received_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a server sent of `client_settings`, checked: it may be anybody's, of any version.

    Args:
        values: By dotted key. What is unknown here is left out; what was not sent has its default.

    Raises:
        ClientRegistrationError: A value can't be one of its setting.
    """
    sent: dict[str, Any] = {}
    for key, info in all_settings().items():
        if info.to_clients and key in values:
            section, _, name = key.rpartition(".")
            (sent.setdefault(section, {}) if section else sent)[name] = values[key]
    try:
        return client_settings(Settings.model_validate(sent))
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in wrong["loc"])
        key = next(key for key in values if f"{place}.".startswith(f"{key}."))
        reason = wrong["msg"].removeprefix("Value error, ").replace("Input should be", "should be")
        raise ClientRegistrationError(
            f"The server's configuration can't be used: {key} = {reprlib.repr(values[key])}: {reason}.",
            "Tell its owner. If that is right there, client and server are of different versions: update the "
            "older one.",
        ) from error
