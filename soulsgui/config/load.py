"""The configuration a command runs with, from the user's folder, a preset and `--set`."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from soulsgui.config.errors import ConfigError, Problem, nearest
from soulsgui.config.former import with_new_names
from soulsgui.config.layers import (
    Layer,
    combine,
    layer_of_tree,
    parse_assignments,
    parse_layer,
    read_layer,
)
from soulsgui.config.paths import Folders, shipped
from soulsgui.config.schema import Settings
from soulsgui.config.sections.agents import shipped_with


def defaults_layer() -> Layer:
    """Return the shipped defaults as a layer."""
    return read_layer(shipped("configs", "config_d.yaml"))


def over_defaults(layers: Sequence[Layer]) -> list[Layer]:
    """Return layers over the shipped defaults, those of the algorithm and the agent that they choose."""
    defaults = defaults_layer()
    values = shipped_with(defaults.values, *(layer.values for layer in layers))
    return [replace(defaults, values=defaults.values | values), *layers]


def preset_names() -> list[str]:
    """Return the names of the shipped presets, sorted."""
    return sorted(path.stem for path in shipped("configs", "presets").glob("*.yaml"))


def preset_layer(name: str, source: str = "--preset") -> Layer:
    """Return a shipped preset as a layer.

    Raises:
        ConfigError: There is no preset of that name.
    """
    names = preset_names()
    if name not in names:
        near = nearest(name, names)
        known = "" if near else f" There are: {', '.join(names)}."
        raise ConfigError([Problem(source, None, "preset", name, f"is not a preset.{known}", near)])
    layer = read_layer(shipped("configs", "presets", f"{name}.yaml"))
    return Layer(f"preset {name}", layer.values, layer.lines, layer.problems)


def layers_of(folders: Folders, preset: str = "", overrides: Sequence[Layer] = ()) -> list[Layer]:
    """Return all layers in order: defaults, preset, config.yaml, then `overrides`.

    Raises:
        ConfigError: A file can't be read, or the preset is unknown.
    """
    own = read_layer(folders.overrides)
    chosen = preset or own.preset
    presets = [preset_layer(chosen, "--preset" if preset else own.source)] if chosen else []
    return over_defaults([*presets, own, *overrides])


def text_problems(text: str, source: str) -> list[Problem]:
    """Return every mistake of a text that would be the user's config.yaml.

    Args:
        text: The text.
        source: The file's name.
    """
    try:
        _check_own(parse_layer(text, source))
    except ConfigError as error:
        return error.problems
    return []


def file_problems(path: Path) -> list[Problem]:
    """Return every mistake of the user's config.yaml; a missing one has none."""
    try:
        _check_own(read_layer(path))
    except ConfigError as error:
        return error.problems
    return []


def _check_own(own: Layer) -> None:
    presets = [preset_layer(own.preset, own.source)] if own.preset else []
    combine(over_defaults([*presets, own]))


def load_settings(folders: Folders, preset: str = "", assignments: Sequence[str] = ()) -> Settings:
    """Return the effective configuration.

    Raises:
        ConfigError: With every mistake.
    """
    return combine(layers_of(folders, preset, [parse_assignments(assignments)]))


def load_run_settings(path: Path) -> Settings:
    """Return the configuration a run goes on with, from its config.json.

    Raises:
        ConfigError: The file is missing or was changed into something invalid.
    """
    return combine([run_layer(path)])


def run_layer(path: Path) -> Layer:
    """Return the configuration of a run as a layer, from its config.json.

    Raises:
        ConfigError: The file is missing, or no configuration.
    """
    layer = read_layer(path)
    try:
        # Nearly all JSON is YAML, but not its escapes of characters beyond 16 bits.
        tree = json.loads(path.read_bytes())
    except (OSError, ValueError):
        tree = None
    if isinstance(tree, dict) and not layer.ambiguous:
        layer = replace(layer_of_tree(with_new_names(tree), path.name), lines=layer.lines)
    if not layer.values and not layer.problems:
        raise ConfigError([Problem(path.name, None, "", None, f"no configuration in {path}.")])
    return layer
