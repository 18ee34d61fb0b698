"""Playing in rounds: exactly this client's share with the weights of the round, then waiting for the next."""

from functools import partial

from soulsgui.policies.numpy_mlp import NumpyMLPPolicy
from soulsgui.sampling.downloader import View
from soulsgui.sampling.link import ClientLink
from soulsgui.sampling.turn import Turn
from soulsgui.sampling.uploader import Uploader


class Rounds:
    """Plays one round after the other, as PPO wants it.

    Args:
        link: The tie to the server.
        uploader: Takes the samples.
        policy: Draws the actions.
    """

    def __init__(self, link: ClientLink, uploader: Uploader, policy: NumpyMLPPolicy) -> None:
        self._link = link
        self._uploader = uploader
        self._round, self._left = -1, 0
        self.act = policy.act

    def turn(self, view: View) -> Turn | None:
        """Return what is left of the present round, as `turn.Way`."""
        # Asked in any case: it raises when this client is refused.
        ready = self._link.ready_round(view, -1 if self._left else self._round)
        if ready is None or self._uploader.full:
            return None
        share = ready.share
        # A short pause does not miss a round: it is played to its end.
        begun = share.round_id == self._round
        left = self._left if begun else share.steps_per_env * self._link.progress.num_envs
        return Turn(ready.header, ready.tensors, partial(self._go_on, share.round_id), left)

    def played(self, turn: Turn, steps: int) -> None:
        """Take note of transitions, as `turn.Way`."""
        if turn.header.model_id != self._round:
            self._round, self._left = turn.header.model_id, turn.steps
        self._left -= steps

    def _go_on(self, round_id: int) -> bool:
        header = self._link.view.header
        return header is not None and header.model_id == round_id and not self._uploader.full
