"""Changes to the user's config.yaml that keep its comments and everything else in it."""

import hashlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap

from soulsgui.config.layers import parse_layer
from soulsgui.errors import SoulsGuiError
from soulsgui.system import atomic_write


class FileChangedError(SoulsGuiError):
    """The file was changed by somebody else since it was read."""


def text_hash(text: str) -> str:
    """Return a short hash that tells whether a text has changed."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read_text(path: Path) -> str:
    """Return the file's text, empty when there is no file yet."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


def with_values(text: str, changes: Mapping[str, Any], reset: tuple[str, ...] = ()) -> str:
    """Return YAML text with settings changed or taken out, comments kept.

    Args:
        text: The present text.
        changes: Dotted key to new value.
        reset: Dotted keys to take out, so that lower layers show through.
    """
    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.width = 110
    tree = yaml.load(text) if text.strip() else None
    if tree is None:
        tree = CommentedMap()
    for key, value in changes.items():
        *parents, last = key.split(".")
        node = tree
        for parent in parents:
            if not isinstance(node.get(parent), CommentedMap):
                node[parent] = CommentedMap()
            node = node[parent]
        node[last] = value
    for key in reset:
        _remove(tree, key.split("."))
    if not tree:
        return text if text.strip().startswith("#") and not changes and not reset else ""
    stream = io.StringIO()
    yaml.dump(tree, stream)
    return stream.getvalue()


def _remove(node: CommentedMap, parts: list[str]) -> None:
    head, *rest = parts
    if head not in node:
        return
    if rest:
        _remove(node[head], rest)
        if node[head]:
            return
    del node[head]


def save_text(path: Path, text: str, base_hash: str | None = None) -> None:
    """Write the file whole, after checking that it is YAML made of known settings.

    Args:
        path: The file.
        text: Its new text.
        base_hash: `text_hash` of the text the change was made from; None overwrites whatever is there.

    Raises:
        ConfigError: The text is not YAML.
        FileChangedError: The file no longer has the text the change was made from.
    """
    parse_layer(text, path.name)
    if base_hash is not None and text_hash(read_text(path)) != base_hash:
        raise FileChangedError(
            f"{path.name} was changed by somebody else meanwhile.",
            "Reload it, or save again to overwrite it.",
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(path, text.encode())
