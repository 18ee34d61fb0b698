"""What a form needs to know of each setting: kind of editor, range in words, reading and checking. Pure."""

import types
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import yaml
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from soulsgui.config.declaring import Section, Within
from soulsgui.config.errors import reason_of
from soulsgui.config.schema import SettingInfo, Settings, all_settings
from soulsgui.gui import text
from soulsgui.wire.messages.live import LiveChange


class Kind(StrEnum):
    """Which editor a setting gets."""

    SWITCH = "switch"
    CHOICE = "choice"
    WHOLE = "whole"
    NUMBER = "number"
    SCHEDULE = "schedule"
    TEXT = "text"
    STRUCTURE = "structure"


@dataclass(frozen=True)
class FieldSpec:
    """One setting."""

    info: SettingInfo  # what the schema says of it
    kind: Kind  # which editor it gets
    optional: bool  # whether it may be empty (None)
    choices: tuple[str, ...]  # the words to choose from
    limits: str  # its range in words, empty for none
    metadata: tuple[Any, ...]  # constraints of the schema, for the check

    @property
    def key(self) -> str:
        """Its dotted key."""
        return self.info.key

    @property
    def section(self) -> str:
        """The first part of its key; empty for settings outside of sections."""
        return self.key.rpartition(".")[0]

    @property
    def title(self) -> str:
        """Its name as people write it."""
        return title_of(self.key.rpartition(".")[2])

    def check(self, value: Any) -> tuple[Any, str]:
        """Return the value as the schema keeps it and what is wrong with it (empty when nothing)."""
        try:
            return _adapter(self.key).validate_python(value), ""
        except ValidationError as error:
            return value, _in_words(error)

    def read(self, written: str) -> tuple[Any, str]:
        """Return the value of a text in an editor and what is wrong with it."""
        words = written.strip()
        if self.optional and words in ("", "none", "null"):
            return None, ""
        if self.kind in (Kind.WHOLE, Kind.NUMBER):
            try:
                return self.check(_number(words, self.kind is Kind.WHOLE))
            except ValueError:
                what = "a whole number" if self.kind is Kind.WHOLE else "a number"
                return words, f"Expected {what}."
        if self.kind is Kind.SCHEDULE and not words.startswith("{"):
            try:
                return self.check(_number(words, whole=False))
            except ValueError:
                return words, f"Expected a number, or {_EXAMPLE}."
        if self.kind in (Kind.STRUCTURE, Kind.SCHEDULE):
            try:
                return self.check(yaml.safe_load(words) if words else self.info.default)
            except yaml.YAMLError:
                return words, "Not valid YAML: write lists as [64, 64] and maps as {name: value}."
        return self.check(words)

    def written(self, value: Any) -> str:
        """Return how a value stands in an editor, which is empty for none, empty lists and empty maps."""
        if value is None or (isinstance(value, (Mapping, list, tuple)) and not value):
            return ""
        return value if isinstance(value, str) else as_yaml(value)

    def shown(self, value: Any) -> str:
        """Return how a value stands among words and in tables."""
        return as_yaml(self.check(value)[0])

    def hint(self, value: Any) -> str:
        """Return a number of bytes in words, empty for everything else."""
        if self.info.unit == "bytes" and isinstance(value, int):
            return text.size(value)
        return ""

    def matches(self, words: str) -> bool:
        """Whether a search for these words finds it: each must stand in key, title or description."""
        heap = f"{self.key} {self.title} {self.info.description} {self.info.effect}".casefold()
        return all(word in heap for word in words.casefold().split())


_EXAMPLE = "{schedule: linear, from: 1, to: 0}"

_WORDS = {
    "adam": "Adam",
    "coef": "coefficient",
    "dqn": "DQN",
    "env": "environment",
    "envs": "environments",
    "beta1": "β₁",
    "beta2": "β₂",
    "gae": "GAE",
    "grad": "gradient",
    "id": "ID",
    "init": "initial",
    "kl": "KL",
    "kwargs": "arguments",
    "max": "maximum",
    "n": "number of",
    "num": "number of",
    "ppo": "PPO",
    "rho": "ρ",
    "sac": "SAC",
    "tensorboard": "TensorBoard",
    "vtrace": "V-trace",
}


def title_of(name: str) -> str:
    """Return a name as people write it: `n_steps` becomes `Number of steps`."""
    words = " ".join(_WORDS.get(word, word) for word in name.split("_"))
    return words[:1].upper() + words[1:]


def section_titles() -> Mapping[str, str]:
    """Return each section's description by its name, in the order of the file."""
    titles = {"": "The run as a whole."}
    for name, field in Settings.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            titles[name] = field.description or ""
    return titles


@cache
def specs() -> Mapping[str, FieldSpec]:
    """Return every setting by its dotted key, in the order of the file."""
    return {key: _spec(info, _field(key)) for key, info in all_settings().items()}


def _field(key: str) -> FieldInfo:
    section, _, name = key.rpartition(".")
    model: type[Section] = Settings
    if section:
        model = Settings.model_fields[section].annotation  # type: ignore[assignment]
    return model.model_fields[name]


@cache
def _adapter(key: str) -> TypeAdapter[Any]:
    field = _field(key)
    kind: Any = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
    return TypeAdapter(kind, config=ConfigDict(allow_inf_nan=False))


def _spec(info: SettingInfo, field: FieldInfo) -> FieldSpec:
    annotation, optional = _without_none(info.annotation)
    origin = get_origin(annotation)
    if annotation is bool:
        kind = Kind.SWITCH
    elif origin is Literal:
        kind = Kind.CHOICE
    elif any(isinstance(part, Within) for part in field.metadata):
        kind = Kind.SCHEDULE
    else:
        kind = {int: Kind.WHOLE, float: Kind.NUMBER, str: Kind.TEXT}.get(annotation, Kind.STRUCTURE)
    choices = tuple(map(str, get_args(annotation))) if kind is Kind.CHOICE else ()
    return FieldSpec(info, kind, optional, choices, limits(tuple(field.metadata)), tuple(field.metadata))


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if get_origin(annotation) in (Union, types.UnionType):
        rest = [part for part in get_args(annotation) if part is not types.NoneType]
        if len(rest) < len(get_args(annotation)):
            return Union[tuple(rest)], True  # noqa: UP007 - of parts known only here
    return annotation, False


def limits(metadata: tuple[Any, ...]) -> str:
    """Return a range in words: `0 to 1`, `more than 0, at most 10`, `at least 1`."""
    found = {
        name: bound
        for name in ("ge", "gt", "le", "lt")
        for part in metadata
        if (bound := getattr(part, name, None)) is not None
    }
    if "ge" in found and "le" in found:
        return f"{_short(found['ge'])} to {_short(found['le'])}"
    words = {
        "ge": "at least {number}",
        "gt": "more than {number}",
        "le": "at most {number}",
        "lt": "less than {number}",
    }
    return ", ".join(words[name].format(number=_short(bound)) for name, bound in found.items())


def _short(number: Any) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:g}"


def _number(words: str, whole: bool) -> int | float:
    """Read `3`, `1e-3`, `1_000_000`, `1e6`."""
    try:
        return int(words)
    except ValueError:
        number = float(words)
    return int(number) if whole and number.is_integer() else number


def plain(value: Any) -> Any:
    """Return a value as YAML and JSON know it: tuples as lists."""
    if isinstance(value, Mapping):
        return {str(name): plain(inner) for name, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def as_yaml(value: Any) -> str:
    """Return a value as config.yaml has it, in one line: `true`, `[64, 64]`; `none` where it has `null`."""
    if value is None:
        return "none"
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    try:
        dumped = yaml.safe_dump(plain(value), default_flow_style=True, width=10_000, allow_unicode=True)
    except RecursionError:  # a server may nest values deeper than any setting is
        return "…"
    # A value that stands alone is followed by the mark of the document's end.
    return str(dumped).strip().removesuffix("...").strip()


def change_words(change: LiveChange) -> str:
    """Return what a change made of what: `ppo.clip: 0.2 → 0.1`."""
    pairs = ((key, as_yaml(change.before.get(key)), as_yaml(value)) for key, value in change.after.items())
    return ", ".join(f"{key}: {before} → {after}" for key, before, after in pairs)


def _in_words(error: ValidationError) -> str:
    words = reason_of(error.errors(include_url=False)[0])
    words = words[:1].upper() + words[1:]
    return words if words.endswith(".") else f"{words}."
