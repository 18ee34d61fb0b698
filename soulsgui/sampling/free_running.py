"""Playing freely: as long as the server takes samples, always with the newest weights."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.policies.exploration import boltzmann, epsilon_greedy, ladder
from soulsgui.policies.policy import Policy
from soulsgui.sampling.downloader import View
from soulsgui.sampling.greedy import GreedyEpisodes
from soulsgui.sampling.link import ClientLink
from soulsgui.sampling.rollout import Rollout
from soulsgui.sampling.turn import Mask, Turn
from soulsgui.sampling.uploader import Uploader
from soulsgui.wire.messages.server_config import ServerConfig
from soulsgui.wire.messages.session import Grant
from soulsgui.wire.weights import WeightsHeader


def explore(
    policy: Policy,
    obs: NDArray[Any],
    rng: np.random.Generator,
    grant: Grant | None,
    mask: Mask | None = None,
) -> tuple[NDArray[Any], NDArray[np.float32]]:
    """Choose actions as the server wants it.

    Args:
        policy: The network.
        obs: `[N, *shape]`, raw.
        rng: Source of chance.
        grant: Says how to explore; None, or one that does not, draws from what the policy says.
        mask: Which actions are valid, `[N, A]`; None: all are.

    Returns:
        Actions `[N]` and their log-probabilities `[N]`.
    """
    if grant is None or (grant.epsilon is None and grant.temperature is None):
        return policy.act(obs, rng, mask)
    if grant.temperature is not None:
        return boltzmann(policy, obs, rng, grant.temperature, mask)
    epsilon: float | NDArray[np.float64] = grant.epsilon or 0.0
    if grant.ladder is not None:
        rungs = grant.ladder
        epsilon = ladder(grant.epsilon or 0.0, rungs.first, len(obs), rungs.count, rungs.exponent)
    return epsilon_greedy(policy, obs, rng, epsilon, mask)


class FreeRunning:
    """Plays for an algorithm that learns from what earlier weights played, too.

    It begins when the trainer has let this client in and there are weights. While the server takes no more
    samples it waits between two steps, or (`client.when_full`) plays on and the uploader drops the oldest.
    While the run is paused it waits in either case, unless the game is one in real time
    (`client.step_seconds`).

    Args:
        link: The tie to the server.
        uploader: Takes the samples.
        policy: Holds the weights in use.
        rollout: What was played, but not cut yet, counts as sent.
        config: The run.
        greedy: Plays the evaluations that are asked for; None where none are.
    """

    def __init__(
        self,
        link: ClientLink,
        uploader: Uploader,
        policy: Policy,
        rollout: Rollout,
        config: ServerConfig,
        greedy: GreedyEpisodes | None = None,
    ) -> None:
        self._link = link
        self._uploader = uploader
        self._policy = policy
        self._rollout = rollout
        self._run_id = config.run_id
        self._greedy = greedy
        self._hold_s = float(config.settings["client.segment_seconds"])
        self._waits = config.settings["client.when_full"] == "wait"
        self._real_time = config.settings["client.step_seconds"] > 0
        self._heard: View | None = None
        self._newest: View | None = None
        self._let_in = False
        self._grant: Grant | None = None

    def act(
        self, obs: NDArray[Any], rng: np.random.Generator, mask: Mask | None
    ) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """Choose actions, as `turn.Way`."""
        action, log_prob = explore(self._policy, obs, rng, self._grant, mask)
        if self._greedy is not None and self._greedy.active:
            action = self._greedy.instead(obs, mask, action)
        return action, log_prob

    def turn(self, view: View) -> Turn | None:
        """Return a turn with the newest weights while samples are taken, as `turn.Way`."""
        self._hear(view)
        newest = self._newest
        if newest is None or newest.header is None or newest.tensors is None or not self._may_step():
            return None
        return Turn(newest.header, newest.tensors, partial(self._go_on, newest.header), hold_s=self._hold_s)

    def played(self, turn: Turn, steps: int) -> None:
        """Nothing is to be noted: there is no share that could be played to its end."""

    def _hear(self, view: View) -> None:
        """Take over what a view says; while the server is silent, what it said last stays."""
        grant = self._link.answer_of_trainer(view)
        if grant is not None:
            self._let_in, self._grant = grant.status == "accepted", grant
            if self._greedy is not None:
                self._greedy.hear(grant.greedy, self._link.asked)
        # Between two runs there may be the weights of one and the description of the other.
        if view.header is not None and view.header.run_id == self._run_id:
            self._newest = view
        self._heard = view

    def _go_on(self, header: WeightsHeader) -> bool:
        view = self._link.view
        if view is not self._heard:
            self._hear(view)
            if self._newest is not None and self._newest.header != header:
                return False
        return self._may_step()

    def _may_rest(self) -> bool:
        """Whether the run is paused, and nothing is lost by waiting: only a game in real time plays on."""
        return self._grant is not None and self._grant.resting and not self._real_time

    def _may_step(self) -> bool:
        if not self._waits:
            return self._let_in and not self._may_rest()
        return self._uploader.has_room(self._rollout.open_steps)
