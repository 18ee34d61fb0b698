"""From files, presets and `--set` to one checked configuration.

A layer is a flat map from dotted keys to values that remembers where each was written. Later layers
win entry by entry: defaults < those of the algorithm and its agent < preset < config.yaml < --set.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, get_args

from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.constructor import RoundTripConstructor
from ruamel.yaml.error import MarkedYAMLError

from soulsgui.config.errors import ConfigError, Problem, nearest
from soulsgui.config.plain import NotPlainError, plain
from soulsgui.config.reading import MOST_BYTES, read_settings, too_large
from soulsgui.config.rules import broken_rules
from soulsgui.config.schema import Settings
from soulsgui.config.sections.dqn import DQNSettings
from soulsgui.config.settings_info import all_settings

PRESET_KEY = "preset"

_PATTERNS = {
    "network.name": "should be mlp, mlp_layer_norm, nature_cnn, small_cnn, impala_resnet, or a class of your "
    "own as module:Class",
    "client.restart_hook": "should be module:function",
    "redis.prefix": "should be letters, digits, dots and dashes with a colon at their end, such as souls:",
}
"""What strings of a certain form look like: a regular expression is no help."""

_NO_YAML = "is not a YAML value."
_SHOWN = 200


@dataclass(frozen=True)
class Layer:
    """Values of one source.

    Attributes:
        source: Name of the source as the user knows it.
        values: Dotted key to value.
        lines: Dotted key to the line it stands in, from 1; empty for sources without lines.
        problems: Mistakes found while reading, such as unknown keys.
        preset: The preset this source asks for, empty for none.
        ambiguous: Whether it is YAML with a key that is written twice, which only a hand can put right.
    """

    source: str
    values: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    preset: str = ""
    ambiguous: bool = False


def flatten(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return a nested map as dotted keys, not descending into values that are maps themselves."""
    known = all_settings()
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        key = f"{prefix}{name}"
        if key in known or not isinstance(value, dict):
            flat[key] = value
        else:
            flat |= flatten(value, f"{key}.")
    return flat


def nest(flat: dict[str, Any]) -> dict[str, Any]:
    """Return dotted keys as a nested map: the reverse of `flatten`."""
    tree: dict[str, Any] = {}
    for key, value in flat.items():
        *parents, last = key.split(".")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = value
    return tree


def place_of(key: str, layers: Sequence[Layer]) -> str:
    """Return where the value of a setting that counts is written: `config.yaml, line 3`; empty when nowhere.

    Args:
        key: The setting.
        layers: Later ones win.
    """
    layer = next((one for one in reversed(layers) if key in one.values), None)
    if layer is None:
        return ""
    return f"{layer.source}, line {layer.lines[key]}" if key in layer.lines else layer.source


def read_layer(path: Path) -> Layer:
    """Read a YAML file of settings; a missing file is an empty layer.

    Raises:
        ConfigError: The file can't be read or is not YAML.
    """
    try:
        text = read_settings(path)
    except FileNotFoundError:
        return Layer(path.name)
    return parse_layer(text, path.name)


def parse_layer(text: str, source: str) -> Layer:
    """Read settings from YAML text.

    Raises:
        ConfigError: The text is not YAML, not a map at the top, or far too long.
    """
    if len(text) > MOST_BYTES:
        raise too_large(Path(source), len(text.encode(errors="replace")))
    try:
        return _layer_of_text(text, source)
    except ConfigError:
        raise
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise ConfigError([Problem(source, line, "", None, f"not valid YAML: {error.problem}")]) from error
    except RecursionError as error:
        raise ConfigError([Problem(source, None, "", None, "not valid YAML: nested too deeply")]) from error
    except Exception as error:
        # The parser has no error of its own for much that can be wrong: a section that merges itself, …
        reason = f"not valid YAML: {type(error).__name__}: {error}"
        raise ConfigError([Problem(source, None, "", None, reason)]) from error


class _Again(NamedTuple):
    """A key that its map has already, with its value and its line, from 1."""

    holder: CommentedMap
    name: Any
    value: Any
    line: int


class _Constructor(RoundTripConstructor):
    """Goes on where a key is written twice: what is wrong behind it is to be told, too."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.again: list[_Again] = []

    def check_mapping_key(self, node: Any, key_node: Any, mapping: Any, key: Any, value: Any) -> bool:
        """Whether to put a key into a map: the first one stays."""
        if key in mapping:
            self.again.append(_Again(mapping, key, value, key_node.start_mark.line + 1))
            return False
        return True


def _layer_of_text(text: str, source: str) -> Layer:
    yaml = YAML(typ="rt")
    yaml.Constructor = _Constructor
    tree = yaml.load(text)
    if tree is None:
        return Layer(source)
    if not isinstance(tree, CommentedMap):
        reason = "expected settings like `ppo:` with `gamma: 0.99` below it"
        raise ConfigError([Problem(source, 1, "", None, reason)])
    return layer_of_tree(tree, source, yaml.constructor.again)


def layer_of_tree(tree: Mapping[Any, Any], source: str, again: Sequence[_Again] = ()) -> Layer:
    """Return a nested map of settings as a layer; lines are known of a map that was read from YAML.

    Args:
        tree: Sections with their settings below them; keys may also be dotted.
        source: Name of the source as the user knows it.
        again: What was written once more of the same keys.
    """
    found = _Found(source)
    _walk(tree, "", found)
    for holder, name, value, line in reversed(again):  # what lies within another one comes before it
        key = f"{found.prefixes.get(id(holder), '')}{name}"
        found.doubled(key, _line_of(holder, name), line)
        if holder is tree and key in _sections() and isinstance(value, Mapping):
            _walk(value, f"{key}.", found)
    preset = found.values.pop(PRESET_KEY, "") or ""
    if not isinstance(preset, str):
        found.problem(PRESET_KEY, preset, "expected a preset's name")
        preset = ""
    problems = sorted(found.problems, key=lambda one: one.line or 0)
    return Layer(source, found.values, found.lines, tuple(problems), preset, bool(again))


class _Found:
    """What a walk through one source found."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.values: dict[str, Any] = {}
        self.lines: dict[str, int] = {}
        self.problems: list[Problem] = []
        self.prefixes: dict[int, str] = {}  # of each map of settings

    def problem(self, key: str, value: Any, reason: str) -> None:
        self.problems.append(Problem(self.source, self.lines.get(key), key, value, reason))

    def take(self, key: str, value: Any) -> None:
        try:
            self.values[key] = plain(value)
        except NotPlainError as error:
            self.problem(key, None, str(error))

    def doubled(self, key: str, first: int | None, line: int | None) -> None:
        places = f": in line {first} and in line {line}" if first and line else ""
        reason = f"is written twice{places}. Keep one of them."
        self.problems.append(Problem(self.source, line, key, None, reason))


def _walk(node: Mapping[Any, Any], prefix: str, found: _Found) -> None:
    known, sections = all_settings(), _sections()
    found.prefixes[id(node)] = above = prefix
    for name, value in node.items():
        key = f"{prefix}{name}"
        line = _line_of(node, name)
        if key in found.values:
            found.doubled(key, found.lines.get(key), line)
            continue
        if line is not None:
            found.lines[key] = line
        if key in known or key == PRESET_KEY:
            found.take(key, value)
        elif not prefix and key in sections:
            above = f"{key}."
            if isinstance(value, Mapping):
                _walk(value, f"{key}.", found)
            elif value is not None:
                shown = value if isinstance(value, (str, int, float)) else None
                found.problem(key, shown, "is a section: settings go below it")
        else:
            # At the top of the file it may be a setting of the section above it that was not indented.
            found.problems.append(
                unknown_key(found.source, line, key, key if "." in key else f"{above}{key}")
            )


def _sections() -> set[str]:
    return {key.split(".")[0] for key in all_settings() if "." in key}


def _line_of(node: Mapping[Any, Any], name: Any) -> int | None:
    """Return the line of a key, from 1; None when it is not known, as of keys merged in (`<<`)."""
    if not isinstance(node, CommentedMap):
        return None
    try:
        line: int = node.lc.key(name)[0] + 1
    except (KeyError, TypeError):
        return None
    return line


def unknown_key(source: str, line: int | None, key: str, meant: str = "") -> Problem:
    """Return the problem of a key that is not a setting.

    Args:
        source: Where it was written.
        line: In which line, from 1.
        key: As it was written.
        meant: With the section it stands in; empty for `key` itself.
    """
    return Problem(source, line, key, None, "is not a setting.", nearest(meant or key, all_settings()))


def parse_assignments(assignments: Sequence[str], source: str = "--set") -> Layer:
    """Read `key=value` words; values are YAML (`3`, `true`, `[64, 64]`, `null`)."""
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    known = all_settings()
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        key = key.strip()
        if not equals:
            problems.append(Problem(source, None, key, None, "expected key=value."))
        elif key not in known:
            problems.append(unknown_key(source, None, key))
        else:
            value, reason = _read_value(text)
            # `souls:` alone would be a map, `007` a number, a day a date, and nothing at all a null.
            if known[key].annotation is str and not isinstance(value, str) and reason != _NO_YAML:
                values[key] = text.strip()
            elif reason:
                problems.append(Problem(source, None, key, text[:_SHOWN], reason))
            else:
                values[key] = value
    return Layer(source, values, problems=tuple(problems))


def _read_value(text: str) -> tuple[Any, str]:
    """Return a value and, where there is none, why."""
    try:
        # Pure: the parser in C would overflow the stack where values are nested a thousandfold.
        return plain(YAML(typ="safe", pure=True).load(text)), ""
    except NotPlainError as error:
        return None, str(error)
    except Exception:  # the parser has no error of its own for much of what can be wrong
        return None, _NO_YAML


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
    try:
        settings = Settings.model_validate(nest(merged))
    except ValidationError as error:
        wrong = _in_words(error, merged, origin)
        problems += wrong
        # The rules are looked at with the shipped values in place of what is wrong, to name every mistake.
        fine = {key: value for key, value in merged.items() if key not in {problem.key for problem in wrong}}
        settings = Settings.model_validate(nest(fine))
    for rule in broken_rules(settings):
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
        key = next(
            (".".join(parts[:n]) for n in range(len(parts), 0, -1) if ".".join(parts[:n]) in known),
            ".".join(parts),
        )
        layer = origin.get(key, Layer("defaults"))
        reason = _hint(key, merged.get(key), detail["type"]) or _reason(detail["msg"])
        if key in merged and merged[key] is None:
            reason += ", or left out for the shipped value"
        unit = known[key].unit if key in known else ""
        if unit:
            reason += f" (in {unit})"
        found.setdefault(key, Problem(layer.source, layer.lines.get(key), key, merged.get(key), reason + "."))
    return list(found.values())


def _hint(key: str, value: Any, kind: str) -> str:
    """Return what says more of a mistake than pydantic does, empty where nothing does."""
    if key == "algorithm" and value in get_args(DQNSettings.model_fields["agent"].annotation):
        return f"should be dqn, with dqn.agent: {value}"
    return _PATTERNS.get(key, "") if kind == "string_pattern_mismatch" else ""


def _reason(message: str) -> str:
    return message.replace("Input should be", "should be").removeprefix("Value error, ")
