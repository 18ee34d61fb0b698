"""Changes to the user's config.yaml that keep its comments and everything else in it."""

import hashlib
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from soulsgui.config.errors import ConfigError, Problem
from soulsgui.config.parsing import parse_layer, read_settings
from soulsgui.config.schema import all_settings
from soulsgui.errors import SoulsGuiError
from soulsgui.system import atomic_write, write_private


class FileChangedError(SoulsGuiError):
    """The file was changed by somebody else since it was read."""


def text_hash(text: str) -> str:
    """Return a short hash that tells whether a text has changed."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read_text(path: Path) -> str:
    """Return the file's text, empty when there is no file yet.

    Raises:
        ConfigError: It can't be read.
    """
    try:
        return read_settings(path)
    except FileNotFoundError:
        return ""


def with_values(text: str, changes: Mapping[str, Any], reset: tuple[str, ...] = ()) -> str:
    """Return YAML text with settings changed, or taken out (`reset`), by dotted key; comments are kept.

    Raises:
        ConfigError: The present text is not YAML, a key is written twice in it, or another setting would
            change with these: they share a part (`&name`, `*name`).
    """
    layer = parse_layer(text, "config.yaml")
    if layer.ambiguous:
        raise ConfigError(list(layer.problems))
    for key in reset:
        text = without(text, key)
    if not changes:
        return text
    changed = _changed(text, changes)
    now = parse_layer(changed, "config.yaml").values
    for key, value in layer.values.items():
        if key not in changes and key not in reset and now.get(key) != value:
            names = ", ".join(changes)
            reason = (
                f"would change together with {names}: they share a part (&, *, <<). Write both out in full."
            )
            raise ConfigError([Problem("config.yaml", layer.lines.get(key), key, value, reason)])
    return changed


def _changed(text: str, changes: Mapping[str, Any]) -> str:
    tree = _yaml().load(text)
    if tree is None:
        # A tree of nothing would not keep the comments of a text that has nothing else.
        added = _with_changes(CommentedMap(), changes)
        return f"{text.rstrip()}\n{added}" if text.strip() else added
    return _with_changes(tree, changes)


def _with_changes(tree: CommentedMap, changes: Mapping[str, Any]) -> str:
    for key, value in changes.items():
        plain = list(value) if isinstance(value, tuple) else value
        section, _, last = key.rpartition(".")
        if not section:
            tree[key] = plain
            continue
        below = tree.get(section)
        if key in tree:  # an entry may stand at the top with its whole key
            tree[key] = plain
        if isinstance(below, CommentedMap) and (last in below or key not in tree):
            below[last] = plain
        elif key not in tree:
            tree[section] = CommentedMap({last: plain})
    return _dumped(tree)


def _yaml() -> YAML:
    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.width = 110
    return yaml


def _dumped(tree: CommentedMap) -> str:
    stream = io.StringIO()
    _yaml().dump(tree, stream)
    return stream.getvalue()


def save_text(path: Path, text: str, base_hash: str | None = None) -> None:
    """Write the file whole, after checking that it is YAML of known settings; private with a secret in it.

    Args:
        base_hash: `text_hash` of the text the change was made from; None overwrites whatever is there.

    Raises:
        ConfigError: The text is not YAML, or names something that is not a setting.
        FileChangedError: The file no longer has the text the change was made from.
        OSError: It can't be written; the old text is untouched.
    """
    layer = parse_layer(text, path.name)
    if layer.problems:
        raise ConfigError(list(layer.problems))
    if base_hash is not None and text_hash(read_text(path)) != base_hash:
        raise FileChangedError(
            f"{path.name} was changed by somebody else meanwhile.",
            "Reload it, or save again to overwrite it.",
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    secret = any(all_settings()[key].secret for key in layer.values)
    (write_private if secret else atomic_write)(path.resolve(), text.encode())


Pair = tuple[Node, Node]


def without(text: str, key: str) -> str:
    """Return YAML text without one setting (a dotted key), and without its section when nothing is left.

    It is taken out by lines: the round-trip library would drop the comment after it.
    """
    for parts in ([key], key.split(".")):  # an entry may stand at the top with its whole key, too
        text = _without(text, parts)
    return text


def _without(text: str, parts: Sequence[str]) -> str:
    root = YAML(typ="rt").compose(text)
    chain = _find(root, parts) if root is not None else []
    if not chain:
        return text
    while len(chain) > 1 and len(chain[-1][0].value) == 1:
        chain.pop()
    if any(holder.flow_style for holder, _ in chain):
        return _without_by_tree(text, parts)
    gone = _lines_of(chain[-1][1])
    rest = "\n".join(line for number, line in enumerate(text.split("\n")) if number not in gone)
    # An anchor that others refer to went with it: only the tree can untie that.
    return rest if _is_yaml(rest) else _without_by_tree(text, parts)


def _is_yaml(text: str) -> bool:
    try:
        YAML(typ="rt").compose(text)
    except YAMLError:
        return False
    return True


def _find(root: Node, parts: Sequence[str]) -> list[tuple[MappingNode, Pair]]:
    """Return the maps on the way to a key, each with the pair the way goes through; empty without it."""
    chain: list[tuple[MappingNode, Pair]] = []
    node = root
    for part in parts:
        if not isinstance(node, MappingNode):
            return []
        pair = next((pair for pair in node.value if pair[0].value == part), None)
        if pair is None:
            return []
        chain.append((node, pair))
        node = pair[1]
    return chain


def _lines_of(pair: Pair) -> set[int]:
    """Return the numbers, from 0, of the lines of a key and its value, without comments between them."""
    key, value = pair
    first: int = key.start_mark.line
    if isinstance(value, MappingNode) and not value.flow_style:
        return {first}.union(*(_lines_of(inner) for inner in value.value))
    return set(range(first, max(first, _last_line(value)) + 1))


def _last_line(node: Node) -> int:
    if isinstance(node, SequenceNode) and not node.flow_style:
        return max((_last_line(item) for item in node.value), default=node.start_mark.line)
    if isinstance(node, MappingNode) and not node.flow_style:
        return max(_last_line(value) for _, value in node.value)
    # Nothing, and a block of text, end where the next thing begins.
    at_line_start = isinstance(node, ScalarNode) and node.end_mark.column == 0
    last: int = node.end_mark.line - 1 if at_line_start else node.end_mark.line
    return last


def _without_by_tree(text: str, parts: Sequence[str]) -> str:
    tree = _yaml().load(text)
    *above, last = parts
    section = tree[above[0]] if above else tree
    del section[last]
    if above and not section:
        del tree[above[0]]
    return _dumped(tree) if tree else ""
