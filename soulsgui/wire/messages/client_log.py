"""What a client has to say of its troubles: one entry of `out:<client>`."""

from typing import Literal

from soulsgui.wire.messages.base import Details, Message

LINE_FIELD = b"line"
KEPT_LINES = 200
"""Entries of the stream that are kept; the time of a line is that of its entry, by the server's clock."""


class SentLine(Message):
    """One log line; a traceback follows on lines of its own.

    Attributes:
        level: How bad it is.
        text: What was logged, without time and level.
    """

    level: Literal["warning", "error"]
    text: Details
