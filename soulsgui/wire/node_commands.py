"""Commands from the runner to a node, and the node's answers.

A command is an entry of `do:<node>`; it is deleted once answered, so a node that was restarted in
between still finds it. Every command can be repeated without harm.
"""

import uuid
from typing import Any, Literal, cast

import redis
from pydantic import Field

from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.base import Message

CommandName = Literal[
    "save", "rest", "release", "purge", "stop", "hold", "wait", "cut", "pause", "continue", "configure",
    "evaluate",
]  # fmt: skip
_FIELD = b"m"
_ANSWERS_KEPT = 1000


class NodeCommand(Message):
    """One command.

    `save` takes `kind` (`current`, `best`, `manual`), for `best` also `model_id` and `score`, for
    `manual` also `note`; `release` takes `client`, and lets one that was cut off send again; `purge`
    lets it learn no more from what `client` has sent; `rest` lets the
    node take nothing in and train no more, but obey; `stop` saves and ends it. `hold` grants clients nothing
    more for `seconds`, unless it is said again; `cut` takes nothing of `client` any more, for a `reason`, and
    takes what it has sent off the server. `pause` lets the node take nothing in, grant nothing and train no
    more, but keep everything and obey, until `continue`; `wait` does so for `seconds`, unless it is said
    again, and tells `why`. `configure` takes over `values` of settings, by dotted key, whose effect is live,
    notes that as a `LiveChange`, which `undoes` another one or not, and answers it. `evaluate` has clients
    play `episodes` with the next weights, and answers the `attempt` and the `update` that were made before.
    """

    id: str = Field(default_factory=lambda: uuid.uuid4().hex)
    command: CommandName
    args: dict[str, Any] = Field(default_factory=dict)


class NodeAnswer(Message):
    """What became of a command."""

    id: str
    ok: bool
    result: dict[str, Any] = Field(default_factory=dict)
    error: str = ""


def send_command(connection: redis.Redis, keys: Keys, node: str, command: NodeCommand) -> None:
    """Put a command before a node."""
    connection.xadd(keys.commands(node), {_FIELD: command.to_json()})


class CommandReader:
    """The view that the node of this name has of its commands."""

    def __init__(self, keys: Keys, node: str) -> None:
        self._keys = keys
        self._stream = keys.commands(node)
        self._entries: dict[str, bytes] = {}

    def poll(self, connection: redis.Redis) -> list[NodeCommand]:
        """Return the commands not answered yet, each once; entries that are none are deleted."""
        found = []
        for entry, fields in cast("list[tuple[bytes, dict[bytes, bytes]]]", connection.xrange(self._stream)):
            command = NodeCommand.read(fields.get(_FIELD))
            if command is None or self._entries.get(command.id, entry) != entry:
                connection.xdel(self._stream, entry)  # none, or sent twice because the first reply was lost
            elif command.id not in self._entries:
                self._entries[command.id] = entry
                found.append(command)
        return found

    def answer(self, connection: redis.Redis, answer: NodeAnswer) -> None:
        """Answer a command and take it off the stream."""
        pipeline = connection.pipeline(transaction=True)
        pipeline.xadd(self._keys.done, {_FIELD: answer.to_json()}, maxlen=_ANSWERS_KEPT, approximate=True)
        entry = self._entries.get(answer.id)
        if entry is not None:
            pipeline.xdel(self._stream, entry)
        pipeline.execute()
        self._entries.pop(answer.id, None)


def read_answer(fields: dict[bytes, bytes]) -> NodeAnswer | None:
    """Return the answer in an entry of `done`, or None when it is not one."""
    return NodeAnswer.read(fields.get(_FIELD))
