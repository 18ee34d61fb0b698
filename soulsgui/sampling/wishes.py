"""What a client is wanted to do: by its owner and by the server, the stricter of both. Pure."""

from dataclasses import dataclass
from enum import IntEnum

from soulsgui.wire.messages.owner import OwnerState
from soulsgui.wire.messages.session import Wish


class Stepping(IntEnum):
    """How far environments may be stepped; the smaller, the stricter."""

    NONE = 0
    TO_THE_END = 1
    """On, unrecorded, until each has ended the episode it is in."""
    FREE = 2


@dataclass(frozen=True)
class Plan:
    """What is to be done.

    Attributes:
        stepping: How far environments may be stepped.
        stop: Whether the process is to end then.
    """

    stepping: Stepping = Stepping.FREE
    stop: bool = False

    def stricter(self, other: "Plan") -> "Plan":
        """Return what satisfies both."""
        return Plan(min(self.stepping, other.stepping), self.stop or other.stop)


_OF_OWNER: dict[OwnerState, Plan] = {
    "run": Plan(),
    "pause_after_episode": Plan(Stepping.TO_THE_END),
    "pause": Plan(Stepping.NONE),
    "stop_after_episode": Plan(Stepping.TO_THE_END, stop=True),
    "stop": Plan(Stepping.NONE, stop=True),
}
_OF_SERVER = {
    "run": Plan(),
    "pause": Plan(Stepping.NONE),
    "finish": Plan(Stepping.TO_THE_END, stop=True),
    "stop": Plan(Stepping.NONE, stop=True),
}


def plan_of(owner: OwnerState, server: Wish | None) -> Plan:
    """Return what is to be done.

    Args:
        owner: What the owner of this machine wants.
        server: What the server wants; None while it wants nothing.
    """
    return _OF_OWNER[owner].stricter(_OF_SERVER[server.state] if server is not None else Plan())
