"""The last chunks that were refused, so that they can be looked at: the `rejects` key."""

from pydantic import Field

from soulsgui.wire.messages.base import Message

HEAD_BYTES = 64
"""So much of the beginning of a refused chunk is kept."""


class Reject(Message):
    """A chunk that was refused, whole or in part. Nothing in it is ever executed or unpacked.

    Attributes:
        client: Who sent it.
        entry: Id of its entry in the client's stream.
        reason: Why (`messages.chunk.Reason`); where its segments were refused for several, the most frequent.
        segments: How many of its segments were refused; 1 for a chunk that was refused whole.
        time: When, seconds since the epoch.
        size: Its bytes.
        head: Its first bytes, hexadecimal.
        detail: More about it in words, where there is more.
    """

    client: str
    entry: str
    reason: str
    segments: int = 1
    time: float
    size: int
    head: str = ""
    detail: str = ""


class Rejects(Message):
    """The last of them, oldest first."""

    run_id: str
    rejects: list[Reject] = Field(default_factory=list)
