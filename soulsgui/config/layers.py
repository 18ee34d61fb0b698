"""From layers of settings to one checked configuration.

Later ones win entry by entry: defaults < those of algorithm and agent < preset < config.yaml < --set.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

from pydantic import ValidationError

from soulsgui.config.errors import ConfigError, Problem, nearest, reason_of
from soulsgui.config.parsing import (
    Layer,
    layer_of_tree,
    parse_assignments,
    parse_layer,
    read_layer,
    read_settings,
)
from soulsgui.config.paths import Folders, shipped
from soulsgui.config.rules import broken_rules
from soulsgui.config.schema import RETIRED, Settings, all_settings, flatten, nest, shipped_values
from soulsgui.config.sections.algorithms import DQNSettings, SACSettings

_PATTERNS = {
    "network.name": "should be mlp, mlp_layer_norm, nature_cnn, small_cnn, impala_resnet, or a class of your "
    "own as module:Class",
    "client.restart_hook": "should be module:function",
    "redis.prefix": "should be letters, digits, dots and dashes with a colon at their end, such as souls:",
}
"""What strings of a certain form look like: a regular expression is no help."""


def combine(layers: Sequence[Layer]) -> Settings:
    """Merge layers, later ones winning, and check the result.

    Raises:
        ConfigError: With every mistake of every layer, in the order of layers and lines.
    """
    problems = [problem for layer in layers for problem in layer.problems]
    merged: dict[str, Any] = {}
    origin: dict[str, Layer] = {}
    for layer in layers:
        for key, value in layer.values.items():
            merged[key] = value
            origin[key] = layer
    wrong: set[str] = set()
    try:
        settings = Settings.model_validate(nest(merged))
    except ValidationError as error:
        found = _in_words(error, merged, origin)
        problems += found
        wrong = {problem.key for problem in found}
        # Checks the rules with the shipped values in place of what is wrong, to name every mistake.
        settings = Settings.model_validate(nest({key: merged[key] for key in merged.keys() - wrong}))
    # Which rules hold depends on the algorithm: with another than was meant they would name no mistakes.
    for rule in [] if "algorithm" in wrong else broken_rules(settings):
        layer = origin.get(rule.key, Layer("defaults"))
        problems.append(
            Problem(layer.source, layer.lines.get(rule.key), rule.key, merged.get(rule.key), rule.reason)
        )
    if problems:
        order = {layer.source: place for place, layer in enumerate(layers)}
        raise ConfigError(sorted(problems, key=lambda one: (order.get(one.source, 0), one.line or 0)))
    return settings


def _in_words(error: ValidationError, merged: dict[str, Any], origin: dict[str, Layer]) -> list[Problem]:
    """Return pydantic's findings as problems, one per setting."""
    found: dict[str, Problem] = {}
    known = all_settings()
    for detail in error.errors(include_url=False):
        parts = [str(part) for part in detail["loc"]]
        places = [".".join(parts[:n]) for n in range(len(parts), 0, -1)]
        key = next((place for place in places if place in known), places[0])
        layer = origin.get(key, Layer("defaults"))
        reason = _hint(key, merged.get(key), detail["type"]) or reason_of(detail)
        if key in merged and merged[key] is None:
            reason += ", or left out for the default"
        unit = known[key].unit if key in known else ""
        if unit:
            reason += f" (in {unit})"
        found.setdefault(key, Problem(layer.source, layer.lines.get(key), key, merged.get(key), reason + "."))
    return list(found.values())


def _hint(key: str, value: Any, kind: str) -> str:
    """Return what says more of a mistake than pydantic does, empty where nothing does."""
    if key == "algorithm":
        for family, section in (("dqn", DQNSettings), ("sac", SACSettings)):
            if value in get_args(section.model_fields["agent"].annotation):
                return f"should be {family}, with {family}.agent: {value}"
    return _PATTERNS.get(key, "") if kind == "string_pattern_mismatch" else ""


@cache
def defaults_layer() -> Layer:
    """Return the shipped values of all settings; `configs/config_d.yaml` is written from them, too."""
    return Layer("defaults", flatten(Settings().model_dump(mode="json")))


def over_defaults(layers: Sequence[Layer]) -> list[Layer]:
    """Return layers over the shipped defaults, those of the algorithm and the agent that they choose."""
    defaults = defaults_layer()
    values = shipped_values(defaults.values, *(layer.values for layer in layers))
    return [replace(defaults, values=values), *layers]


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
    return replace(layer, source=f"preset {name}")


def layers_of(
    folders: Folders, preset: str = "", overrides: Sequence[Layer] = (), own: Path | None = None
) -> list[Layer]:
    """Return all layers in order: defaults, preset, config.yaml or `own` in its place, then `overrides`.

    Raises:
        ConfigError: A file can't be read, or the preset is unknown.
    """
    return over_defaults([*_with_preset(read_layer(own or folders.overrides), preset), *overrides])


def text_problems(text: str, source: str) -> list[Problem]:
    """Return every mistake of a text that would be the user's config.yaml, called `source`."""
    return _problems_of(lambda: parse_layer(text, source))


def file_problems(path: Path) -> list[Problem]:
    """Return every mistake of the user's config.yaml; a missing one has none."""
    return _problems_of(lambda: read_layer(path))


def _problems_of(read: Callable[[], Layer]) -> list[Problem]:
    try:
        combine(over_defaults(_with_preset(read())))
    except ConfigError as error:
        return error.problems
    return []


def _with_preset(own: Layer, chosen: str = "") -> list[Layer]:
    """Return a layer above the preset that was chosen, or that it asks for itself."""
    name = chosen or own.preset
    return [preset_layer(name, "--preset" if chosen else own.source), own] if name else [own]


def load_settings(folders: Folders, preset: str = "", assignments: Sequence[str] = ()) -> Settings:
    """Return the effective configuration; a ConfigError names every mistake."""
    return combine(layers_of(folders, preset, [parse_assignments(assignments)]))


def load_run_settings(path: Path, overrides: Sequence[Layer] = ()) -> Settings:
    """Return the configuration a run goes on with: its config.json, and what wins over it.

    Raises:
        ConfigError: The file is missing, or holds no settings; or with every mistake.
    """
    layer = _run_layer(path)
    try:
        return combine([layer, *overrides])
    except ConfigError:
        # Mistakes are told with their lines; only YAML knows them, and takes long to read.
        return combine([replace(layer, lines=read_layer(path).lines), *overrides])


def _run_layer(path: Path) -> Layer:
    try:
        # Nearly all JSON is YAML, but not its escapes of characters beyond 16 bits.
        tree = json.loads(read_settings(path), object_pairs_hook=_each_once)
    except (FileNotFoundError, ValueError, RecursionError):
        tree = None
    is_map = isinstance(tree, dict)
    layer = layer_of_tree(with_new_names(tree), path.name) if is_map else read_layer(path)
    if not layer.values and not layer.problems:
        raise ConfigError([Problem(path.name, None, "", None, f"no configuration in {path}.")])
    return layer


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a map of JSON; ValueError where a key is written twice, which only a hand can put right."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError
    return found


ConfigLike = Settings | dict[str, Any] | SimpleNamespace


def as_settings(config: ConfigLike, overrides: ConfigLike | None = None) -> Settings:
    """Return checked settings; what is not named has the value that is shipped with the algorithm and agent.

    Args:
        config: Settings; or sections with their settings below them, as maps or namespaces, where a key may
            also be dotted (`{"ppo.gamma": 0.9}`) and `preset` names what to begin from.
        overrides: Settings that win over those, in the same form.

    Raises:
        ConfigError: With every mistake.
    """
    if isinstance(config, Settings) and overrides is None:
        return config
    given = (layer_of_tree(_plain(one), "config") for one in (config, overrides or {}))
    return combine(over_defaults([layer for one in given for layer in _with_preset(one)]))


def _plain(config: Any) -> Any:
    if isinstance(config, Settings):
        return config.model_dump()
    tree = vars(config) if isinstance(config, SimpleNamespace) else config
    return {name: _plain(value) for name, value in tree.items()} if isinstance(tree, dict) else tree


def with_new_names(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of a run, as it was saved by any version, in the words of this one."""
    renamed = {name: dict(part) if isinstance(part, dict) else part for name, part in tree.items()}
    for section, _, name in (key.partition(".") for key in RETIRED):
        if isinstance(group := renamed.get(section), dict):
            group.pop(name, None)  # it was written by that version, by nobody's wish
    groups = {name: part for name, part in renamed.items() if isinstance(part, dict)}
    ppo, vtrace, dqn = (groups.get(name, {}) for name in ("ppo", "vtrace", "dqn"))
    for group in (ppo, vtrace):
        if group.pop("learning_rate_schedule", None) == "linear":
            group["learning_rate"] = _linear(group.get("learning_rate", 1e-3), 0.0)
    if isinstance(ppo.get("normalize_advantage"), bool):
        ppo["normalize_advantage"] = "round" if ppo["normalize_advantage"] else "none"
    for name in ("epsilon", "temperature"):
        ends = [dqn.pop(f"{name}_{end}", None) for end in ("start", "end", "steps")]
        if None not in ends:
            dqn[name] = _linear(ends[0], ends[1]) | {"over": ends[2]}
    over, first = dqn.pop("priority_correction_steps", None), dqn.get("priority_correction")
    if over is not None and first is not None:
        dqn["priority_correction"] = _linear(first, 1.0) | {"over": over}
    if "n_step" in dqn and dqn["n_step"] is None:
        dqn["n_step"] = {"rainbow": 3, "r2d2": 5}.get(dqn.get("agent", "dqn"), 1)
    if tree.get("algorithm") in ("ppo", "vtrace"):
        # Before there was `max_steps`, evaluations had to be asked for, and training chose the best model.
        group = renamed.setdefault("evaluation", {})
        if isinstance(group, dict) and "max_steps" not in group:
            if group.get("every_updates") is None:
                group["every_updates"] = 0
            if group.get("best_by", "auto") == "auto":
                group["best_by"] = "training"
    return renamed


def _linear(first: Any, last: Any) -> dict[str, Any]:
    return {"schedule": "linear", "from": first, "to": last}
