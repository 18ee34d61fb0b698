"""What the runner of client mode and its client tell each other: files in one folder, so that the owner's
wishes are heard also while the server is away.

The runner writes `wish.json` and `runner.json`, the client writes `state.json`, which alone lies where it can
write once it is confined. `pause.json` is the runner's own: the owner's pause outlives it there.
"""

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from soulsgui.wire.messages.base import Message
from soulsgui.wire.messages.heartbeat import Heartbeat
from soulsgui.wire.messages.server_config import Execution
from soulsgui.wire.messages.session import Grant, Wish
from soulsgui.wire.versions import MissingRequirement

Minute = Annotated[int, Field(ge=0, lt=24 * 60)]  # a time of day: minutes since midnight

Held = Literal["", "full_screen", "busy", "hours"]
"""Why the client holds back by itself; empty while it does not."""

Share = Literal["full", "gentle", "one_core"]
"""How much of the processor: like any program; behind all others; and then no more than one core."""

IDLE_AFTER_S = 300.0  # nobody is at a computer that has not been used for so long


class Rules(Message):
    """When the client of this computer may play, and what it may take.

    Attributes:
        only_idle: Only while nobody is at the computer.
        not_full_screen: Not while a full-screen program runs, other than the client's own game.
        only_hours: Only between two times of the day.
        begin: The first of them, local time.
        share: How much of the processor it may take.
        end: The second; before the first it is one of the next day, and equal to it the full day is meant.
        writes_anywhere: Whether what a server has it run may write files wherever its owner may.
        shows_game: Whether the server may look at a small picture of the game.
    """

    only_idle: bool = False
    not_full_screen: bool = False
    only_hours: bool = False
    begin: Minute = 22 * 60
    end: Minute = 8 * 60
    share: Share = "full"
    writes_anywhere: bool = False
    shows_game: bool = False

    def in_hours(self, minute: int) -> bool:
        """Whether a time of day (minutes since midnight) is one at which it may play."""
        if not self.only_hours or self.begin == self.end:
            return True
        if self.begin < self.end:
            return self.begin <= minute < self.end
        return minute >= self.begin or minute < self.end


def read_rules(path: Path) -> Rules:
    """Return the rules that were kept; where the file is missing or damaged, those of the beginning."""
    with suppress(OSError):
        return Rules.read(path.read_bytes()) or Rules()
    return Rules()


def writing_words(unconfined: str) -> str:
    """Say what may be written here: `unconfined` is why that isn't kept to one folder, empty where it is."""
    if unconfined:
        return f"Files, wherever you may write yourself. {unconfined}"
    return "Only files in a folder of its own, and devices, such as graphics and sound."


LOOK_EVERY_S = 0.2  # how often the client looks for a wish

KEPT_EPISODES = 100
MOST_EPISODES = 1000
KEPT_FOR_S = 10.0
"""A report names its newest `KEPT_EPISODES`, and those of the last `KEPT_FOR_S` up to `MOST_EPISODES`."""

OwnerState = Literal["run", "pause_after_episode", "pause", "stop_after_episode", "stop"]


class ClientFolder:
    """The names inside the folder of client mode."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.wish = root / "wish.json"  # what the owner wants: an `OwnerWish`
        self.pause = root / "pause.json"  # the owner's pause: an `OwnerPause`; none while there is no file
        self.rules = root / "rules.json"  # when the client holds back by itself: `Rules`
        self.writable = root / "writable"  # the one folder in which a confined client can write
        self.state = self.writable / "state.json"  # what the client says of itself: a `ClientReport`
        # Which process the runner is: a `system.ProcessIdentity`. Without a living one nobody plays on.
        self.runner = root / "runner.json"
        self.server_address = root / "server.json"  # address and password of the server to play for
        self.logs = root / "logs"  # one log file per service


class OwnerWish(Message):
    """What the owner of this machine wants of its client; the stricter of this and the server's wish wins."""

    state: OwnerState = "run"


class OwnerPause(Message):
    """The pause that the owner of this machine wants.

    Attributes:
        after_episode: Whether the client may end the episodes it is in first.
        until: When it ends by itself, seconds since the epoch; None when it does not.
    """

    after_episode: bool = False
    until: float | None = None


_MOST_AGREED = 200


class Agreement(Message):
    """What the owner of this machine lets one server run here, or runs of any origin in the own folders.

    Attributes:
        always: Whatever the server names, also later.
        digests: Of each `Execution` that was agreed to.
    """

    always: bool = False
    digests: list[str] = Field(default_factory=list)

    def covers(self, execution: Execution) -> bool:
        """Whether this may be run."""
        return self.always or execution.digest in self.digests

    def with_one_more(self, digest: str, always: bool = False) -> "Agreement":
        """Return the agreement with one digest more (none: empty), the oldest of too many left out."""
        digests = [one for one in self.digests if one != digest] + ([digest] if digest else [])
        return Agreement(always=always, digests=digests[-_MOST_AGREED:])


def read_agreement(path: Path) -> Agreement:
    """Return what was agreed to: where the file is missing or damaged, nothing.

    Raises:
        OSError: It can't be read now: Windows may just be replacing it.
    """
    try:
        return Agreement.read(path.read_bytes()) or Agreement()
    except FileNotFoundError:
        return Agreement()


class OwnEpisode(Message):
    """An episode that was finished here; what `session.Episode` has means the same.

    Attributes:
        number: Counts the episodes that this process has ended for the run, from 0.
        time: Seconds since the epoch.
        env_steps: Environment steps that this process had made for the run.
    """

    number: int
    run_id: str
    time: float
    env_steps: int
    total_return: float
    length: int
    model_id: int


class ClientReport(Message):
    """The report of a client, written each second.

    Attributes:
        beat: As it is said to the server; its counter moves with every report.
        env_steps: Environment steps that this process has made for the present run.
        grant: What the trainer allows, None before it has answered.
        wish: What the server wants, None while it wants nothing.
        checks: What was checked so far, and whether it is well: `configuration` (received), `version`
            (server and client understand each other), `environment` (found here, with the same spaces),
            `network` (it gives the same numbers here as on the server).
        remote: Whether an inference server chooses its actions: it has no network that could be compared.
        lacks: What the server needs and this computer has not, once `version` was checked.
        asks: What the server wants to run here and its owner has not agreed to; None while nothing waits.
        episodes: The newest finished episodes, oldest first.
        farewell: Why it ends, when it does so in order; empty while it goes on.
    """

    beat: Heartbeat
    env_steps: int = 0
    grant: Grant | None = None
    wish: Wish | None = None
    checks: dict[str, bool] = Field(default_factory=dict)
    remote: bool = False
    lacks: list[MissingRequirement] = Field(default_factory=list)
    asks: Execution | None = None
    episodes: list[OwnEpisode] = Field(default_factory=list)
    farewell: str = ""
