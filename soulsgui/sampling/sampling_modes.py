"""The two modes of sampling, in rounds or freely: each chooses actions and plans the next rollout."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.environments.choices import Mask
from soulsgui.policies.exploration import boltzmann, epsilon_greedy, ladder
from soulsgui.policies.policy import Policy
from soulsgui.sampling.downloader import ServerView
from soulsgui.sampling.greedy import GreedyEvaluation
from soulsgui.sampling.link import ClientLink
from soulsgui.sampling.rollout import Act, Rollout
from soulsgui.sampling.uploader import Uploader
from soulsgui.wire.codec import WeightsHeader
from soulsgui.wire.messages.server_config import ServerConfig
from soulsgui.wire.messages.session import Grant

NO_LIMIT = 2**62


@dataclass(frozen=True)
class RolloutPlan:
    """Steps that are made with the same weights, one after another, as long as `go_on` says.

    Without a `header` an inference server has the weights.
    """

    header: WeightsHeader | None
    tensors: dict[str, NDArray[Any]]
    go_on: Callable[[], bool]
    steps: int = NO_LIMIT
    hold_s: float = math.inf


def explore(
    policy: Policy,
    obs: NDArray[Any],
    rng: np.random.Generator,
    grant: Grant | None,
    mask: Mask | None = None,
    epsilon: NDArray[np.float64] | None = None,
) -> tuple[NDArray[Any], NDArray[np.float32]]:
    """Choose actions `[N]`, with their log-probabilities, at observations `[N, *shape]` as a grant wants it.

    Without a grant, or with one that does not say how to explore, they are drawn from what the policy says.
    Where the rows are of several grants, `epsilon` has the ε of each; else `epsilons` tells it.
    """
    if grant is None or (grant.epsilon is None and grant.temperature is None):
        return policy.act(obs, rng, mask)
    if grant.temperature is not None:
        return boltzmann(policy, obs, rng, grant.temperature, mask)
    return epsilon_greedy(policy, obs, rng, epsilons(grant, len(obs)) if epsilon is None else epsilon, mask)


def epsilons(grant: Grant, num_envs: int) -> NDArray[np.float64]:
    """Return the ε of each environment of a client."""
    epsilon, rungs = grant.epsilon or 0.0, grant.ladder
    if rungs is None:
        return np.full(num_envs, epsilon)
    return ladder(epsilon, rungs.first, num_envs, rungs.count, rungs.exponent)


def drops_when_full(settings: Mapping[str, Any]) -> bool:
    """Whether a client that samples freely plays on while the server takes no more (`client.when_full`)."""
    real_time = settings["client.step_seconds"] > 0
    return (settings["client.when_full"] or ("drop_oldest" if real_time else "wait")) == "drop_oldest"


class FreeRunning:
    """Plays for an algorithm that learns from what earlier weights played, too.

    It begins when the trainer has let this client in and there are weights. While the server takes no more
    samples it waits between two steps, or (`client.when_full`) plays on and the uploader drops the oldest.
    While the run is paused it waits in either case, unless the game is one in real time
    (`client.step_seconds`).
    """

    def __init__(
        self,
        link: ClientLink,
        uploader: Uploader,
        policy: Policy,
        rollout: Rollout,
        config: ServerConfig,
        greedy: GreedyEvaluation | None = None,
    ) -> None:
        self._link = link
        self._uploader = uploader
        self._policy = policy
        self._rollout = rollout
        self._run_id = config.run_id
        self._greedy = greedy
        self._hold_s = float(config.settings["client.segment_seconds"])
        self._waits = not drops_when_full(config.settings)
        self._real_time = config.settings["client.step_seconds"] > 0
        self._heard: ServerView | None = None
        self._newest: ServerView | None = None
        self._let_in = False
        self._grant: Grant | None = None

    def act(
        self, obs: NDArray[Any], rng: np.random.Generator, mask: Mask | None
    ) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """Choose actions, as `rollout.Act`."""
        action, log_prob = explore(self._policy, obs, rng, self._grant, mask)
        if self._greedy is not None and self._greedy.active:
            action = self._greedy.instead(obs, mask, action)
        return action, log_prob

    def next_rollout(self, view: ServerView) -> RolloutPlan | None:
        """Return what the newest weights can play while samples are taken; asking begins nothing."""
        self._hear(view)
        newest = self._newest
        if newest is None or newest.header is None or newest.tensors is None or not self._may_step():
            return None
        return RolloutPlan(
            newest.header, newest.tensors, partial(self._go_on, newest.header), hold_s=self._hold_s
        )

    def played(self, plan: RolloutPlan, steps: int) -> None:
        """Nothing is to be noted: there is no share that could be played to its end."""

    def _hear(self, view: ServerView) -> None:
        """Take over a view of the server; while it is silent, the last one stays."""
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

    def _may_step(self) -> bool:
        if self._waits:
            return self._uploader.has_room(self._rollout.open_steps)
        # While the run is paused nothing is lost by waiting: only a game in real time plays on.
        rests = self._grant is not None and self._grant.resting and not self._real_time
        return self._let_in and not rests


class Rounds:
    """Plays one round after the other, as PPO wants it.

    With `exploring` it acts as it would without rounds: off-policy algorithms play so where a run is to be
    repeatable.
    """

    def __init__(
        self, link: ClientLink, uploader: Uploader, policy: Policy, exploring: FreeRunning | None = None
    ) -> None:
        self._link = link
        self._uploader = uploader
        self._round, self._played = -1, 0
        self._session = ""
        self._exploring = exploring
        self.act: Act = policy.act if exploring is None else exploring.act

    def next_rollout(self, view: ServerView) -> RolloutPlan | None:
        """Return what is left of the present round, None while there is nothing; asking begins nothing."""
        if self._exploring is not None:
            self._exploring.next_rollout(view)  # hears how to explore; asking begins nothing
        # Asked in any case: it raises when this client is refused.
        ready = self._link.ready_round(view, -1)
        if ready is None or self._uploader.full:
            return None
        share = ready.share
        session = self._link.progress.session
        if session != self._session:
            # The share counts anew in a new session; what waits of the one before is sent in it.
            self._session, self._played = session, self._uploader.session_steps
        # A short pause does not miss a round: it is played to its end. And its share may grow.
        left = share.steps - (self._played if share.round_id == self._round else 0)
        if left <= 0:
            return None
        return RolloutPlan(ready.header, ready.tensors, partial(self._go_on, share.round_id), left)

    def played(self, plan: RolloutPlan, steps: int) -> None:
        """Take note of transitions that were made for a plan."""
        if plan.header is not None and plan.header.model_id != self._round:
            self._round, self._played = plan.header.model_id, 0
        self._played += steps

    def _go_on(self, round_id: int) -> bool:
        header = self._link.view.header
        return header is not None and header.model_id == round_id and not self._uploader.full


SamplingMode = FreeRunning | Rounds
