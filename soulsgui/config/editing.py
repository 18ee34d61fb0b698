"""Changes to the user's config.yaml that keep its comments and everything else in it."""

import hashlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap

from soulsgui.config.errors import ConfigError
from soulsgui.config.layers import parse_layer
from soulsgui.config.reading import read_settings
from soulsgui.config.removal import without
from soulsgui.errors import SoulsGuiError
from soulsgui.system import atomic_write


class FileChangedError(SoulsGuiError):
    """The file was changed by somebody else since it was read."""


def text_hash(text: str) -> str:
    """Return a short hash that tells whether a text has changed."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read_text(path: Path) -> str:
    """Return the file's text, empty when there is no file yet.

    Raises:
        ConfigError: It can't be read, or is no text of settings.
    """
    try:
        return read_settings(path)
    except FileNotFoundError:
        return ""


def with_values(text: str, changes: Mapping[str, Any], reset: tuple[str, ...] = ()) -> str:
    """Return YAML text with settings changed or taken out, comments kept.

    Args:
        text: The present text.
        changes: Dotted key to new value.
        reset: Dotted keys to take out, so that lower layers show through.

    Raises:
        ConfigError: The present text is not YAML, or a key is written twice in it.
    """
    layer = parse_layer(text, "config.yaml")
    if layer.ambiguous:
        raise ConfigError(list(layer.problems))
    for key in reset:
        text = without(text, key)
    if not changes:
        return text
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
    """Write the file whole, after checking that it is YAML made of known settings.

    Args:
        path: The file.
        text: Its new text.
        base_hash: `text_hash` of the text the change was made from; None overwrites whatever is there.

    Raises:
        ConfigError: The text is not YAML, or names something that is not a setting.
        FileChangedError: The file no longer has the text the change was made from.
        OSError: It can't be written; the old text is untouched.
    """
    problems = parse_layer(text, path.name).problems
    if problems:
        raise ConfigError(list(problems))
    if base_hash is not None and text_hash(read_text(path)) != base_hash:
        raise FileChangedError(
            f"{path.name} was changed by somebody else meanwhile.",
            "Reload it, or save again to overwrite it.",
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(path, text.encode())
