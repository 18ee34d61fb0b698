"""Files and words of settings read into layers: whatever lies there is read, or refused in words.

A layer is a flat map from dotted keys to values that remembers where each was written.
"""

import codecs
import errno
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from shutil import SpecialFileError
from typing import Any, NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.constructor import ConstructorError, RoundTripConstructor
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.scanner import RoundTripScanner, ScannerError

from soulsgui.config.errors import MOST_TOLD, ConfigError, Problem, file_problem, nearest
from soulsgui.config.paths import Folders
from soulsgui.config.schema import RETIRED, all_settings
from soulsgui.system import read_small

logger = logging.getLogger(__name__)

PRESET_KEY = "preset"

_NO_YAML = "is not a YAML value."
_INTEGER = "tag:yaml.org,2002:int"

MOST_BYTES = 128 * 2**10
"""Settings are a few kilobytes; reading more as YAML takes so long that nobody would wait."""

_TO_UTF_8 = "Save it as UTF-8 in your editor, or move it away."
_WIDE = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)

MOST_PARTS = 10_000  # entries a value may have, those of its parts included
DEEPEST = 40  # levels a value may have
_DEEPEST_BRACKETS = 100  # `[` and `{` open at a time: more than any value has that is read
_MOST_MERGED = (
    1_000  # entries that maps take from others (`<<`): what that takes may grow with the square of it
)
_MOST_DIGITS = 1_000  # of a whole number; of more than 4,300 Python writes none
_TOO_LARGE = 10**_MOST_DIGITS
_TOO_LONG = f"a number of more than {_MOST_DIGITS:,} digits"


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


def read_layer(path: Path) -> Layer:
    """Read a YAML file of settings, empty where there is none.

    Raises:
        ConfigError: It can't be read.
    """
    try:
        text = read_settings(path)
    except FileNotFoundError:
        return Layer(path.name)
    return parse_layer(text, path.name)


class _Again(NamedTuple):
    """A key that its map has already, with its value and its line, from 1."""

    holder: CommentedMap
    name: Any
    value: Any
    line: int


def parse_layer(text: str, source: str) -> Layer:
    """Read settings from YAML text.

    Raises:
        ConfigError: The text is no YAML, has no map at the top, or is far too long.
    """
    tree, again = parse_tree(text, source)
    return layer_of_tree(tree, source, again)


def parse_tree(text: str, source: str) -> tuple[CommentedMap, list[_Again]]:
    """Return the map that a YAML text holds, and what is written once more of the same keys in it.

    Raises:
        ConfigError: The text is no YAML, has no map at the top, or is far too long.
    """
    if len(text) > MOST_BYTES:
        raise too_large(Path(source), len(text.encode(errors="replace")))
    yaml = YAML(typ="rt")
    yaml.Scanner, yaml.Constructor = _Scanner, _Constructor
    line: int | None = None
    cause: Exception | None = None
    try:
        tree = yaml.load(text)
        if tree is None:
            return CommentedMap(), []
        if isinstance(tree, CommentedMap):
            return tree, yaml.constructor.again
        line, reason = 1, "expected settings like `ppo:` with `gamma: 0.99` below it"
    except MarkedYAMLError as error:
        cause = error
        line = error.problem_mark.line + 1 if error.problem_mark else None
        reason = f"not valid YAML: {error.problem}"
    except RecursionError:
        reason = "not valid YAML: nested too deeply"
    except Exception as error:
        cause = error
        # The parser has no error of its own for much that can be wrong: a section that merges itself, …
        reason = f"not valid YAML: {type(error).__name__}: {error}"
    raise ConfigError([Problem(source, line, "", None, reason)]) from cause


class _Scanner(RoundTripScanner):
    """Ends where brackets are nested deeply: what it takes to read them grows with the square of that."""

    def fetch_flow_collection_start(self, TokenClass: Any, to_push: str) -> None:
        """Take a `[` or a `{`."""
        if self.flow_level == _DEEPEST_BRACKETS:
            reason = f"nested deeper than {_DEEPEST_BRACKETS} levels"
            raise ScannerError(None, None, reason, self.reader.get_mark())
        super().fetch_flow_collection_start(TokenClass, to_push)


class _Constructor(RoundTripConstructor):
    """Goes on where a key is written twice: what is wrong behind it is to be told, too."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.again: list[_Again] = []
        self._merged = 0

    def flatten_mapping(self, node: Any) -> Any:
        """Return the maps that are merged into one."""
        found = super().flatten_mapping(node)
        self._merged += sum(len(one) + 1 for one in found)
        if self._merged > _MOST_MERGED:
            reason = f"more than {_MOST_MERGED:,} entries are merged (<<)"
            raise ConstructorError(None, None, reason, node.start_mark)
        return found

    def check_mapping_key(self, node: Any, key_node: Any, mapping: Any, key: Any, value: Any) -> bool:
        """Whether to put a key into a map: the first one stays."""
        if key in mapping:
            self.again.append(_Again(mapping, key, value, key_node.start_mark.line + 1))
            return False
        return True

    def construct_scalar(self, node: Any) -> Any:
        """Return a number or a word; whole numbers that are too long are told with their place."""
        if node.tag == _INTEGER and len(node.value) > _MOST_DIGITS:
            raise ConstructorError(None, None, _TOO_LONG, node.start_mark)
        return super().construct_scalar(node)


def layer_of_tree(tree: Mapping[Any, Any], source: str, again: Sequence[_Again] = ()) -> Layer:
    """Return a nested map of settings as a layer; lines are known of a map that was read from YAML.

    Keys may also be dotted; `again` is what was written once more of the same ones.
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
        places = ""
        if first and line:
            places = f" in line {line}" if first == line else f": in line {first} and in line {line}"
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
        elif key in RETIRED:
            _say_retired(found.source, key)
        elif not prefix and key in sections:
            above = f"{key}."
            if isinstance(value, Mapping):
                _walk(value, f"{key}.", found)
            elif value is not None:
                shown = value if isinstance(value, (str, int, float)) else None
                found.problem(key, shown, "is a section: settings go below it")
        else:
            # At the top of the file it may be a setting of the section above it that was not indented.
            is_section = not prefix and isinstance(value, Mapping)
            meant = key if "." in key or is_section else f"{above}{key}"
            names = sections if is_section else known
            found.problems.append(unknown_key(found.source, line, key, meant, _told(found.problems, names)))


@cache
def _say_retired(source: str, key: str) -> None:
    """Say it once: the window reads what is being written again and again."""
    logger.warning("%s: %s was removed, and is ignored: %s", source, key, RETIRED[key])


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


def unknown_keys(source: str, keys: Iterable[str]) -> list[Problem]:
    """Return the problems of those keys that are no settings, of a source without lines."""
    known, problems = all_settings(), list[Problem]()
    for key in keys:
        if key not in known:
            problems.append(unknown_key(source, None, key, key, _told(problems, known)))
    return problems


def unknown_key(source: str, line: int | None, key: str, meant: str, names: Iterable[str]) -> Problem:
    """Return the problem of a key that is not a setting: `meant`, with its section, may be one of `names`."""
    reason = f"was removed: {RETIRED[key]}." if key in RETIRED else "is not a setting."
    return Problem(source, line, key, None, reason, nearest(meant, names))


def _told(problems: Sequence[Problem], names: Iterable[str]) -> Iterable[str]:
    """Return names that are worth a look for the next problem: none where nobody is told of it.

    To find what was meant takes a millisecond, and a file that holds no settings has thousands of mistakes.
    """
    return names if len(problems) < MOST_TOLD else ()


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
            problems.append(unknown_key(source, None, key, key, _told(problems, known)))
        else:
            value, reason = read_value(text)
            # `souls:` alone would be a map, `007` a number, a day a date, and nothing at all a null.
            if known[key].annotation is str and not isinstance(value, str) and reason != _NO_YAML:
                values[key] = text.strip()
            elif reason:
                problems.append(Problem(source, None, key, text, reason))
            else:
                values[key] = value
    return Layer(source, values, problems=tuple(problems))


def read_value(text: str) -> tuple[Any, str]:
    """Return the value of a YAML text of anybody and, where there is none, why."""
    try:
        yaml = YAML(typ="rt")
        yaml.Scanner = _Scanner
        return plain(yaml.load(text)), ""
    except NotPlainError as error:
        return None, str(error)
    except Exception:  # the parser has no error of its own for much of what can be wrong
        return None, _NO_YAML


def read_settings(path: Path) -> str:
    """Return the text of a file of settings; a mark of UTF-8 at its beginning is left out.

    Raises:
        FileNotFoundError: There is none.
        ConfigError: It is no file, can't be read, is too large, or is not UTF-8.
    """
    remedy = "Fix that."
    if path.name == Folders.overrides.name:  # a run's folder has its settings under another name
        remedy = "Fix that, or choose another folder: --config-dir DIR."
    try:
        data = read_small(path, MOST_BYTES)
    except FileNotFoundError:
        raise
    except SpecialFileError as error:
        reason = f"is a pipe or a device in {path.parent}, not a file. {remedy}"
        raise file_problem(path, None, reason) from error
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise too_large(path, path.stat().st_size) from error
        reason = f"can't be read in {path.parent}: {error.strerror or error}. {remedy}"
        raise file_problem(path, None, reason) from error
    for mark, name in _WIDE:
        if data.startswith(mark):
            raise file_problem(path, None, f"is written as {name}, not as UTF-8. {_TO_UTF_8}")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        reason = f"the byte 0x{data[error.start]:02x} is not UTF-8. {_TO_UTF_8}"
        raise file_problem(path, line, reason) from error


def too_large(path: Path, size: int) -> ConfigError:
    """Return the error of a file, or of a text for it, that holds more than settings."""
    reason = f"is {size / 2**20:.1f} MB large; settings take {MOST_BYTES // 2**10} KB at most. "
    return file_problem(path, None, f"{reason}It contains something else: check it, or move it away.")


class NotPlainError(ValueError):
    """A value is not plain data; the message says why, as a reason for the user."""


def plain(value: Any) -> Any:
    """Return a YAML value without the round-trip wrappers.

    An alias may stand for a whole branch or a long text and be used again and again, so that a few lines make
    billions of entries or letters, or for a branch that holds it: all that ends here.

    Raises:
        NotPlainError: It holds what JSON does not know, itself, or too much.
    """
    parts = letters = 0

    def text(value: Any) -> str:
        nonlocal letters
        letters += len(found := str(value))
        if letters > MOST_BYTES:
            raise NotPlainError(f"has more than {MOST_BYTES:,} letters.")
        return found

    def copy(value: Any, depth: int) -> Any:
        nonlocal parts
        parts += 1
        if parts > MOST_PARTS:
            raise NotPlainError(f"has more than {MOST_PARTS:,} entries.")
        if depth > DEEPEST:
            raise NotPlainError(f"contains itself, or is nested deeper than {DEEPEST} levels.")
        if isinstance(value, dict):
            return {text(key): copy(inner, depth + 1) for key, inner in value.items()}
        if isinstance(value, (list, tuple)):
            return [copy(inner, depth + 1) for inner in value]
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, int) and abs(value) >= _TOO_LARGE:
            raise NotPlainError(f"contains {_TOO_LONG}.")
        if isinstance(value, str):
            return text(value)
        for kind in (int, float):
            if isinstance(value, kind):
                return kind(value)
        what = "binary data" if isinstance(value, bytes) else f"a value of the kind {type(value).__name__}"
        raise NotPlainError(f"contains {what}, not a number, a word, a list or a map: put it in quotes.")

    return copy(value, 0)
