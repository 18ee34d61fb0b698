"""The rules of a good neighbour: when the client of this computer holds back by itself."""

from typing import Annotated, Literal

from pydantic import Field

from soulsgui.wire.messages.base import Message

Minute = Annotated[int, Field(ge=0, lt=24 * 60)]
"""A time of day: minutes since midnight."""

Held = Literal["", "full_screen", "busy", "hours"]
"""Why the client holds back by itself; empty while it does not."""

Share = Literal["full", "gentle", "one_core"]
"""How much of the processor: like any program; behind all others; and then no more than one core."""

IDLE_AFTER_S = 300.0
"""Nobody is at a computer that has not been used for so long."""


class Rules(Message):
    """When the client of this computer may play.

    Attributes:
        only_idle: Only while nobody is at the computer.
        not_full_screen: Not while a full-screen program runs, other than the client's own game.
        only_hours: Only between two times of the day.
        begin: The first of them, local time.
        share: How much of the processor it may take.
        end: The second; before the first it is one of the next day, and equal to it the whole day is meant.
    """

    only_idle: bool = False
    not_full_screen: bool = False
    only_hours: bool = False
    begin: Minute = 22 * 60
    end: Minute = 8 * 60
    share: Share = "full"

    def in_hours(self, minute: int) -> bool:
        """Whether a time of day is one at which it may play.

        Args:
            minute: Minutes since midnight.
        """
        if not self.only_hours or self.begin == self.end:
            return True
        if self.begin < self.end:
            return self.begin <= minute < self.end
        return minute >= self.begin or minute < self.end
