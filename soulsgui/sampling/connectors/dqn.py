"""A loop written by hand that samples for an asynchronous algorithm, as fast as it likes.

For Q-learning, soft actor-critic and V-trace (`algorithm: dqn`, `sac`, `vtrace`): none waits for rounds.

connector = DQNConnector(config)
while training:
    with connector as (agent, model_id):
        action = agent(obs)
    next_obs, reward, terminated, truncated, info = env.step(action)
    connector.push_sample(
        pack_sample(obs, action, reward, next_obs, terminated, truncated, {}, model_id, step_id)
    )
    ...
"""

import logging
import threading
import time
from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.config.layers import ConfigLike
from soulsgui.errors import ClientRegistrationError, ServiceError, SoulsGuiError, UsageError
from soulsgui.policies.policy import Mask, Policy
from soulsgui.sampling.connectors.base import MOST_HELD, BaseConnector, Weights
from soulsgui.sampling.connectors.samples import LogProb, Sample
from soulsgui.sampling.downloader import ServerView
from soulsgui.wire.codec import WeightsHeader
from soulsgui.wire.connection import Address
from soulsgui.wire.messages.server_config import OFF_POLICY, ServerConfig, learns_from_log_probs

logger = logging.getLogger(__name__)

_MOST_KNOWN = 4096
_MOST_POLICIES = 16
"""Newest weights whose policies are kept, where log-probabilities are to be computed."""


class DQNConnector(BaseConnector):
    """Connects one environment, stepped by hand, with a server that trains asynchronously.

    The weights change by themselves in the background, but never within the context. A push never waits:
    while the server takes no more samples, or is away, the oldest ones that were not sent are dropped and
    counted, whatever `client.when_full` says. Wishes of the runner (pause, stop) are not looked at: the loop
    belongs to whoever wrote it.

    What it takes and raises is told at `BaseConnector`.
    """

    _FAMILY = OFF_POLICY

    def __init__(self, config: ConfigLike, address: Address | None = None, name: str | None = None) -> None:
        self._pushed: deque[bytes | Sample] = deque()
        self._known: dict[int, WeightsHeader] = {}
        self._policies: dict[int, Policy] = {}
        self._failure: SoulsGuiError | None = None
        self._complaint: UsageError | None = None
        self._thread = threading.Thread(target=self._run, name="connector", daemon=True)
        super().__init__(config, address, name)
        self._hold_s = float(self._config.settings["client.segment_seconds"])
        self._asks_log_probs = learns_from_log_probs(self._config.settings["algorithm"])
        self._newest = self._weights  # from here on the thread's alone
        self._thread.start()

    def push_sample(self, data: bytes) -> None:
        """Take over one step; it is read later, in the background.

        Args:
            data: From `wire.codec.pack_sample`; its model id may be that of any weights which this connector
                acted with. Where the algorithm asks for log-probabilities and `info` has no `log_prob`, it is
                computed with those weights; with those of too long ago it can't be, and the sample is dropped
                and counted. Q-learning and soft actor-critic ask for none: 0 is sent.

        Raises:
            UsageError: An earlier push was no sample of this environment; this one was not taken. Or the
                policy has a memory, and the agent was not asked about this step.
            ClientRegistrationError: The server began another run or refused this client, or another process
                took over the name.
        """
        self._check()
        # What is remembered must change before the agent is asked again.
        taken = data if self._hidden_states is None else self._recalled(self._read_sample(data))
        if len(self._pushed) < MOST_HELD:
            self._pushed.append(taken)
        else:
            self._link.progress.drop(1)

    def push_episode_info(self, data: bytes) -> None:
        """Report a finished episode, as `BaseConnector.push_episode_info`."""
        self._check()
        super().push_episode_info(data)

    def close(self) -> None:
        """Send what was pushed, say goodbye and end every thread."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        super().close()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._complaint is not None:
            complaint, self._complaint = self._complaint, None
            raise complaint

    def _use(self, weights: Weights) -> None:
        """Act with other weights from now on; samples of theirs are known from here on."""
        model_id = weights.header.model_id
        self._known[model_id], self._policies[model_id] = weights.header, weights.policy
        for remembered, most in ((self._known, _MOST_KNOWN), (self._policies, _MOST_POLICIES)):
            if len(remembered) > most:
                del remembered[next(iter(remembered))]
        super()._use(weights)

    def _in_use(self) -> Weights:
        """Return the weights to act with: the newest ones, unless somebody is within the context."""
        if self._failure is not None:
            raise self._failure
        newest = self._newest
        if newest is not self._weights and not self._held:
            self._use(newest)
        return self._weights

    def _check_family(self, config: ServerConfig) -> None:
        super()._check_family(config)
        if config.settings["determinism"] == "lockstep":
            raise ClientRegistrationError(
                "The server's run is in lockstep, which a loop by hand can't keep.",
                "Set determinism to off on the server, or let `soulsgui client` play.",
            )

    def _run(self) -> None:
        """Hear what the server says, and record what was pushed, until closed."""
        try:
            self._hear(self._link.view)
            stopping = False
            while not stopping:
                stopping = self._stop.is_set()
                self._gather()
                self._send_pushed()
        except SoulsGuiError as error:
            self._failure = error
        except Exception as error:
            logger.exception("the connector ended by an error")
            self._failure = ServiceError(f"Samples can't be sent any more: {error!r}")

    def _gather(self) -> None:
        """Hear what the server says until it is time to send what was pushed."""

        def enough() -> bool:
            return len(self._pushed) >= self._assembler.capacity

        due = time.monotonic() + self._hold_s
        while (left_s := due - time.monotonic()) > 0 and not enough() and not self._stop.is_set():
            if self._link.wait(lambda view: view is not self._heard or enough(), left_s):
                self._hear(self._link.view)

    def _hear(self, view: ServerView) -> None:
        """Take over a view of the server; while it is silent, the last one stays."""
        self._heard = view
        self._check_run(view)
        grant = self._link.answer_of_trainer(view)
        if grant is not None:
            self._grant = grant
        if view.header is None or view.tensors is None or not self._brings_weights(view):
            return
        if view.header != self._newest.header:
            self._newest = self._ready_to_act(view.header, view.tensors)

    def _send_pushed(self) -> None:
        """Send what was pushed, the steps of each weights together."""
        samples: list[Sample] = []
        header: WeightsHeader | None = None
        ask: LogProb | None = None
        for _ in range(len(self._pushed)):
            sample = self._read(self._pushed.popleft())
            if sample is None:
                continue
            chosen_by = self._known.get(sample.model_id)
            can_ask = None if chosen_by is None else self._log_prob_of(chosen_by)
            if chosen_by is None or (sample.log_prob is None and can_ask is None):
                self._link.progress.drop(1)
                continue
            if header is not chosen_by:
                if header is not None:
                    self._send(samples, header, ask or _unsaid)
                header, ask, samples = chosen_by, can_ask, []
            samples.append(sample)
        if header is not None:
            self._send(samples, header, ask or _unsaid)

    def _log_prob_of(self, header: WeightsHeader) -> LogProb | None:
        """Return what computes log-probabilities for these weights; None when they are gone."""
        if not self._asks_log_probs:
            return _unsaid
        policy = self._policies.get(header.model_id)
        if policy is None:
            return None

        def log_prob(obs: NDArray[Any], action: NDArray[np.int64], mask: Mask | None) -> NDArray[np.float32]:
            with self._lock:  # a policy is for one thread at a time
                return policy.log_prob(obs, action, mask)

        return log_prob

    def _read(self, data: bytes | Sample) -> Sample | None:
        try:
            sample = data if isinstance(data, Sample) else self._read_sample(data)
        except UsageError as error:
            logger.warning("a sample is not taken: %s", error.message)
            self._complaint = error
            return None
        self._link.progress.stepped(1)
        return sample


def _unsaid(obs: NDArray[Any], action: NDArray[Any], mask: Mask | None) -> NDArray[np.float32]:
    """Return zeros in place of log-probabilities that the algorithm does not need."""
    return np.zeros(len(action), np.float32)
