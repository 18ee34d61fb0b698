"""Taking one setting out of YAML text by lines, since the round-trip library drops the comment after it."""

import io
from collections.abc import Sequence

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

Pair = tuple[Node, Node]


def without(text: str, key: str) -> str:
    """Return YAML text without one setting, and without its section when nothing is left in it.

    Args:
        text: YAML with a map at the top, or nothing.
        key: Dotted key; one that is not there changes nothing.
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
    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.width = 110
    tree = yaml.load(text)
    _remove(tree, parts)
    stream = io.StringIO()
    if tree:
        yaml.dump(tree, stream)
    return stream.getvalue()


def _remove(node: CommentedMap, parts: Sequence[str]) -> None:
    head, *rest = parts
    if rest:
        _remove(node[head], rest)
        if node[head]:
            return
    del node[head]
