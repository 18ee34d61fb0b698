"""Learner and client of an off-policy algorithm in lockstep, so that a run can be repeated to the bit. Pure.

One client plays: a share of steps with the newest weights, then it waits. The learner takes exactly these in,
makes every update that is due for them, and publishes again with the next share. Time is looked at
only where a client is silent while another could play.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from soulsgui.training.session import Session
from soulsgui.wire.fleet import LOST_S
from soulsgui.wire.messages.session import RoundShare

STEPS_PER_ENV = 16
"""Steps of each environment in a share: a round trip costs more than the steps of quick environments."""


@dataclass
class Lockstep:
    """Who plays, and how many steps are still to come.

    Attributes:
        longest: Longest segment of the run: a share fits into one chunk, so that it is taken in at once.
        client: Whose share it is; empty when nobody has one.
        left: Transitions of the share that did not come yet.
        silent_since: Since when the client says nothing while another could play, monotonic seconds.
    """

    longest: int
    client: str = ""
    left: int = 0
    silent_since: float | None = None

    @property
    def waits(self) -> bool:
        """Whether a share is still being played."""
        return self.left > 0

    def begin(self, sessions: Mapping[str, Session], model_id: int) -> bool:
        """Give the next share to the first client by name; return whether there is one.

        Args:
            sessions: Those who can play now.
            model_id: Id of the weights to play with.
        """
        if not sessions:
            return False
        self.client = min(sessions)
        session = sessions[self.client]
        self.left, self.silent_since = min(STEPS_PER_ENV, self.longest) * session.num_envs, None
        session.round = RoundShare(round_id=model_id, steps=self.left)
        return True

    def takes(self, client: str, steps: int) -> bool:
        """Whether transitions belong to the share; those for which it is said count as delivered."""
        if client != self.client or steps > self.left:
            return False
        self.left -= steps
        return True

    def lost(self, playing: Collection[str], now: float) -> bool:
        """Return whether the rest of the share is to be given up: its client is silent, others could play.

        Without others it is waited for: when it is heard again, the curve is that of a run without the gap.

        Args:
            playing: Clients that can play now.
            now: Monotonic time, seconds.
        """
        if not self.waits or self.client in playing or not playing:
            self.silent_since = None
            return False
        if self.silent_since is None:
            self.silent_since = now
        return now >= self.silent_since + LOST_S

    def drop(self, client: str) -> None:
        """Take note that a client won't deliver the rest of its share."""
        if client == self.client:
            self.client, self.left = "", 0
