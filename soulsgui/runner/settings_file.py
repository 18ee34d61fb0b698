"""The user's settings as the control API shows, checks and saves them."""

import contextlib
import json
import threading
from dataclasses import asdict
from typing import Any

from soulsgui.config.editing import FileChangedError, read_text, save_text, text_hash, with_values
from soulsgui.config.errors import ConfigError
from soulsgui.config.layers import (
    combine,
    defaults_layer,
    layers_of,
    over_defaults,
    preset_layer,
    preset_names,
)
from soulsgui.config.parsing import Layer, parse_layer
from soulsgui.config.paths import Folders, shipped
from soulsgui.config.schema import all_settings
from soulsgui.runner.refusal import Refused
from soulsgui.runner.run.start import override_layer
from soulsgui.wire.control import ConfigCheckParams, ConfigSaveParams, ConfigValues, ErrorCode, Preset

_SAVING = threading.Lock()  # held by who reads the file to write it changed: nobody's change is lost


def values(folders: Folders, running: dict[str, Any]) -> ConfigValues:
    """Return defaults, what the user changed, and what the run, if there is one, uses (by dotted key)."""
    text, own = "", Layer(folders.overrides.name)
    with contextlib.suppress(ConfigError):  # told among the problems
        text = read_text(folders.overrides)
        own = parse_layer(text, folders.overrides.name)
    return ConfigValues(
        defaults=_public(defaults_layer().values),
        saved=_public(own.values),
        running=running,
        text=text,
        hash=text_hash(text),
        path=str(folders.overrides),
        preset=own.preset,
        problems=problems(folders, ConfigCheckParams()),
    )


def problems(folders: Folders, params: ConfigCheckParams) -> list[dict[str, Any]]:
    """Return every mistake of a configuration, as plain data."""
    try:
        check(folders, params)
    except ConfigError as error:
        return as_plain(error)
    return []


def as_plain(error: ConfigError) -> list[dict[str, Any]]:
    """Return the mistakes of a configuration as plain data."""
    # What was written need not be what JSON knows: a date, for instance.
    plain: list[dict[str, Any]] = json.loads(json.dumps([asdict(one) for one in error.problems], default=str))
    return plain


def check(folders: Folders, params: ConfigCheckParams) -> None:
    """Check the configuration that a text and overrides would make; `ConfigError` tells every mistake."""
    text = read_text(folders.overrides) if params.text is None else params.text
    own = parse_layer(text, folders.overrides.name)
    chosen = params.preset or own.preset
    presets = [preset_layer(chosen, "--preset" if params.preset else own.source)] if chosen else []
    combine(over_defaults([*presets, own, override_layer(params.overrides)]))


def save(folders: Folders, params: ConfigSaveParams) -> dict[str, Any]:
    """Write the user's settings, if right and as they were read; return the new text with its hash."""
    with _SAVING:
        return _save(folders, params)


def _save(folders: Folders, params: ConfigSaveParams) -> dict[str, Any]:
    if params.text is not None and (params.changes or params.reset):
        raise Refused(ErrorCode.BAD_REQUEST, "Give either `text` or `changes` and `reset`, not both.")
    changed = Refused(
        ErrorCode.NOT_NOW,
        "config.yaml was changed by somebody else meanwhile.",
        "Reload it, or save again without base_hash to overwrite it.",
    )
    base = read_text(folders.overrides)
    unknown = [key for key in (*params.changes, *params.reset) if key not in all_settings()]
    if unknown:
        raise ConfigError(list(override_layer(dict.fromkeys(unknown), "config.save").problems))
    if params.base_hash is not None and params.base_hash != text_hash(base):
        raise changed
    text = params.text if params.text is not None else with_values(base, params.changes, tuple(params.reset))
    check(folders, ConfigCheckParams(text=text))
    try:
        save_text(folders.overrides, text, params.base_hash)
    except FileChangedError as error:
        raise changed from error
    return {"hash": text_hash(text), "text": text}


def presets() -> list[Preset]:
    """Return the shipped presets; a file begins with its title and a line that explains it, as comments."""
    found = []
    measured = json.loads(shipped("configs", "preset_times.json").read_text(encoding="utf-8"))
    for name in preset_names():
        text = shipped("configs", "presets", f"{name}.yaml").read_text(encoding="utf-8")
        title, about = (line.removeprefix("# ") for line in text.splitlines()[:2])
        seconds = measured["seconds"].get(name, 0.0)
        found.append(
            Preset(
                name=name,
                title=title.rstrip("."),
                about=about,
                seconds=seconds,
                machine=measured["machine"] if seconds else "",
                values=_public(preset_layer(name).values),
            )
        )
    return found


def _public(flat: dict[str, Any]) -> dict[str, Any]:
    known = all_settings()
    return {key: value for key, value in flat.items() if key in known and not known[key].secret}


def difference(folders: Folders, preset: str, overrides: Layer) -> list[dict[str, Any]]:
    """Return the settings that differ from the shipped ones: key, shipped, value, and where that was written.

    An empty preset takes the one that the user's file asks for; `overrides` are above both.
    """
    shipped_layer, *layers = layers_of(folders, preset, [overrides])
    combine([shipped_layer, *layers])
    found: dict[str, dict[str, Any]] = {}
    known = all_settings()
    for layer in layers:
        for key, value in layer.values.items():
            if key not in known:
                continue
            found[key] = {
                "key": key,
                "shipped": shipped_layer.values.get(key),
                "value": "***" if known[key].secret and value else value,
                "source": layer.source,
                "line": layer.lines.get(key),
            }
    return [one for one in found.values() if one["shipped"] != one["value"]]
