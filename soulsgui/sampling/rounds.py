"""Playing in rounds: exactly this client's share with the weights of the round, then waiting for the next.

Off-policy algorithms play so, too, where a run is to be repeatable.
"""

from functools import partial

from soulsgui.policies.policy import Policy
from soulsgui.sampling.downloader import View
from soulsgui.sampling.link import ClientLink
from soulsgui.sampling.turn import Act, Turn, Way
from soulsgui.sampling.uploader import Uploader


class Rounds:
    """Plays one round after the other, as PPO wants it.

    Args:
        link: The tie to the server.
        uploader: Takes the samples.
        policy: Draws the actions.
    """

    def __init__(self, link: ClientLink, uploader: Uploader, policy: Policy) -> None:
        self._link = link
        self._uploader = uploader
        self._round, self._played = -1, 0
        self._session = ""
        self.act: Act = policy.act

    def turn(self, view: View) -> Turn | None:
        """Return what is left of the present round, as `turn.Way`."""
        # Asked in any case: it raises when this client is refused.
        ready = self._link.ready_round(view, -1)
        if ready is None or self._uploader.full:
            return None
        share = ready.share
        self._look_at_session()
        # A short pause does not miss a round: it is played to its end. And its share may grow.
        left = share.steps - (self._played if share.round_id == self._round else 0)
        if left <= 0:
            return None
        return Turn(ready.header, ready.tensors, partial(self._go_on, share.round_id), left)

    def played(self, turn: Turn, steps: int) -> None:
        """Take note of transitions, as `turn.Way`."""
        if turn.header.model_id != self._round:
            self._round, self._played = turn.header.model_id, 0
        self._played += steps

    def _look_at_session(self) -> None:
        """In a new session the share counts anew; what waits of the one before is sent in it."""
        session = self._link.progress.session
        if session != self._session:
            self._session, self._played = session, self._uploader.session_steps

    def _go_on(self, round_id: int) -> bool:
        header = self._link.view.header
        return header is not None and header.model_id == round_id and not self._uploader.full


class ExploringRounds(Rounds):
    """Plays one share after the other, exploring as it would without rounds.

    Args:
        link: The tie to the server.
        uploader: Takes the samples.
        policy: Holds the weights in use.
        free: Explores as the server says.
    """

    def __init__(self, link: ClientLink, uploader: Uploader, policy: Policy, free: Way) -> None:
        super().__init__(link, uploader, policy)
        self._free = free
        self.act = free.act

    def turn(self, view: View) -> Turn | None:
        """Return what is left of the present share, as `turn.Way`."""
        self._free.turn(view)  # hears how to explore; asking begins nothing
        return super().turn(view)
