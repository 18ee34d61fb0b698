"""Evaluations that a grant asks for: greedy episodes in the first environment, beside the training.

While an episode is greedy its environment takes the best actions of the weights that were asked about,
without noise and with the statistics that came with them, whatever newer weights the other environments
play with. Nothing of it is recorded.
"""

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.environments.choices import Mask
from soulsgui.errors import SoulsGuiError
from soulsgui.policies.exploration import without_noise
from soulsgui.policies.numpy_recurrent import Remembered, remembered_by
from soulsgui.policies.policy import Policy
from soulsgui.sampling.downloader import ServerView
from soulsgui.sampling.progress import Progress
from soulsgui.wire.codec import WeightsHeader
from soulsgui.wire.messages.heartbeat import GreedyPlay
from soulsgui.wire.messages.session import GreedyOrder

logger = logging.getLogger(__name__)


class GreedyEvaluation:
    """Plays evaluations in the first environment, beside the training. Used by one thread.

    An evaluation begins with the next episode; when it is withdrawn, the episode under way is played to its
    end and not told of. An episode longer than `longest` steps is to be cut.
    """

    def __init__(
        self,
        make_policy: Callable[[WeightsHeader, dict[str, NDArray[Any]]], Policy],
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
        self._to_load: ServerView | None = None
        self._order: GreedyOrder | None = None
        self._playing: GreedyOrder | None = None  # what the episode under way is part of
        self._began, self._played = -1, 0
        progress.greedy = GreedyPlay(model_id=-1)

    def hear(self, order: GreedyOrder | None, asked: ServerView | None) -> None:
        """Take over the order of the newest grant; None withdraws the order before."""
        if order is None:
            self._order = self._to_load = None
            return
        if order.model_id == self._began or asked is None or order != asked.greedy_order:
            return
        self._order, self._began, self._played = order, order.model_id, 0
        self._to_load = asked  # not here: networks take their time, and others wait for who asks
        logger.info("plays up to %d greedy episodes of model %d, as asked", order.count, order.model_id)
        self._tell()

    def at_start(self) -> None:
        """An episode begins in the first environment with the next step."""
        if self._order is not None and self._to_load is not None:
            self._load(self._to_load)
            self._to_load = None
        order = self._order
        self._playing = order if order is not None and self._played < order.count else None
        self.active = self._playing is not None
        self._memory.begin(1)

    def _load(self, asked: ServerView) -> None:
        """Take over the weights that are asked about; who can't run them says so, and plays on."""
        assert asked.header is not None
        assert asked.tensors is not None
        try:
            if self._policy is None:
                self._policy = self._make_policy(asked.header, asked.tensors)
                self._memory = remembered_by(self._policy)
            self._policy.load(without_noise(asked.tensors))
        except SoulsGuiError as error:  # where an inference server acts, networks serve this alone
            logger.info("can't play the greedy episodes that it is asked for: %s", error)
            self._order = self._progress.greedy = None
            self._tell_soon()

    def instead(
        self,
        obs: NDArray[np.generic],
        mask: Mask | None,
        action: NDArray[np.generic],
        converted: bool = False,
    ) -> NDArray[np.generic]:
        """Return actions `[N, ...]` with the best one in the first environment.

        They are as stored, or `converted` to what the environments take.
        """
        assert self._policy is not None
        best = self._policy.greedy(obs[:1], None if mask is None else mask[:1])
        chosen = action.copy()
        chosen[:1] = self._policy.to_environment(best) if converted else best
        self._progress.stepped_greedily()
        return chosen

    def ended(self) -> tuple[GreedyOrder, int] | None:
        """An episode has ended; return its order and number, None when that was withdrawn meanwhile."""
        order, number = self._playing, self._played
        if order is None or order is not self._order:
            return None
        self._played += 1
        self._tell()
        return order, number

    def _tell(self) -> None:
        self._progress.greedy = GreedyPlay(model_id=self._began, played=self._played)
        self._tell_soon()
