"""Evaluations that a grant asks for: greedy episodes in the first environment, beside the training.

While an episode is greedy its environment takes the best actions of the weights that were asked about,
without noise and with the statistics that came with them, whatever newer weights the other environments
play with. Nothing of it is recorded.
"""

import logging
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from soulsgui.policies.policy import Policy
from soulsgui.policies.remembered import Remembered, remembered_by
from soulsgui.policies.still import without_noise
from soulsgui.sampling.downloader import View
from soulsgui.sampling.progress import Progress
from soulsgui.sampling.turn import Mask
from soulsgui.wire.messages.session import GreedyOrder

logger = logging.getLogger(__name__)


def order_in(view: View | None) -> GreedyOrder | None:
    """Return the order for an evaluation in a view that has the weights to play it with, too."""
    order = None if view is None or view.grant is None else view.grant.greedy
    header = None if view is None or view.tensors is None else view.header
    if order is None or header is None:
        return None
    same = (header.model_id, header.attempt) == (order.model_id, order.attempt)
    return order if same else None


class GreedyEpisodes:
    """Plays evaluations in the first environment, as `rollout.Aside`. Used by one thread.

    An evaluation begins with the next episode; when it is withdrawn, the episode that is under way is played
    to its end and not told of.

    Args:
        make_policy: Makes the network of the run, without weights.
        progress: Is told how far it is.
        tell_soon: Called when there is something that the server should hear soon.
        longest: Steps after which a greedy episode is cut.

    Attributes:
        active: Whether the episode in the first environment is greedy.
        longest: As the argument.
    """

    def __init__(
        self,
        make_policy: Callable[[], Policy],
        progress: Progress,
        tell_soon: Callable[[], None],
        longest: int,
    ) -> None:
        self.active = False
        self.longest = longest
        self._make_policy = make_policy
        self._progress = progress
        self._tell_soon = tell_soon
        self._policy: Policy | None = None
        self._memory = Remembered()
        self._order: GreedyOrder | None = None
        self._playing: GreedyOrder | None = None  # what the episode under way is part of
        self._began = -1
        self._played = 0
        progress.plays_greedy(self._began, self._played)

    def hear(self, order: GreedyOrder | None, asked: View | None) -> None:
        """Take over what the newest grant asks for.

        Args:
            order: What it asks for; None withdraws what was asked for before.
            asked: The newest view that came with an order and its weights, if there was any.
        """
        if order is None:
            self._order = None
        elif order.model_id != self._began and order == order_in(asked):
            assert asked is not None
            self._begin(order, asked)

    def _begin(self, order: GreedyOrder, asked: View) -> None:
        if self._policy is None:
            self._policy = self._make_policy()
            self._memory = remembered_by(self._policy)
        assert asked.tensors is not None
        self._policy.load(without_noise(asked.tensors))
        self._order, self._began, self._played = order, order.model_id, 0
        logger.info("plays up to %d greedy episodes of model %d, as asked", order.count, order.model_id)
        self._tell()

    def at_start(self) -> None:
        """An episode begins in the first environment with the next step."""
        order = self._order
        self._playing = order if order is not None and self._played < order.count else None
        self.active = self._playing is not None
        self._memory.begin(1)

    def instead(
        self, obs: NDArray[np.generic], mask: Mask | None, action: NDArray[np.generic]
    ) -> NDArray[np.generic]:
        """Return stored actions `[N, ...]` with the best one in the first environment.

        Args:
            obs: `[N, *shape]`, raw.
            mask: Which actions are valid, `[N, A]`; None: all are.
            action: What the others do.
        """
        assert self._policy is not None
        chosen = action.copy()
        chosen[:1] = self._policy.greedy(obs[:1], None if mask is None else mask[:1])
        self._progress.stepped_greedily()
        return chosen

    def ended(self) -> tuple[GreedyOrder, int] | None:
        """An episode has ended; return the order that it is part of and its number in it.

        Returns:
            None when it was withdrawn meanwhile.
        """
        order, number = self._playing, self._played
        if order is None or order is not self._order:
            return None
        self._played += 1
        self._tell()
        return order, number

    def _tell(self) -> None:
        self._progress.plays_greedy(self._began, self._played)
        self._tell_soon()
