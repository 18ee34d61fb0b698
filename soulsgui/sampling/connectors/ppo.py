"""A loop written by hand that samples for PPO, round after round.

connector = PPOConnector(config)
while training:
    while connector.steps_left:
        with connector as (agent, model_id):
            action = agent(obs)
        next_obs, reward, terminated, truncated, info = env.step(action)
        connector.push_sample(
            pack_sample(obs, action, reward, next_obs, terminated, truncated, {}, model_id, step_id)
        )
        ...
    connector.sync()
"""

import time

from soulsgui.config.layers import ConfigLike
from soulsgui.sampling.connectors.base import MOST_HELD, BaseConnector, Weights
from soulsgui.sampling.connectors.samples import Sample
from soulsgui.sampling.downloader import ServerView
from soulsgui.sampling.link import ReadyRound
from soulsgui.wire.connection import Address
from soulsgui.wire.messages.server_config import ON_POLICY


class PPOConnector(BaseConnector):
    """Connects one environment, stepped by hand, with a server that trains with PPO.

    The weights change in `sync` alone. A push never touches the network. Samples beyond the round's share,
    or acted on with other weights, are dropped and counted.

    What it takes and raises is told at `BaseConnector`.
    """

    _FAMILY = ON_POLICY

    def __init__(self, config: ConfigLike, address: Address | None = None, name: str | None = None) -> None:
        self._samples: list[Sample] = []  # of a round that has not begun
        self._open: list[Sample] = []  # of the present round
        self._recorded = 0
        self._delivered = 0  # the share that was recorded whole
        self._session = ""
        super().__init__(config, address, name)

    @property
    def steps_left(self) -> int | None:
        """Steps still to be sampled for the present round; None while it has not begun, or without us."""
        with self._lock:
            share = self._share()
            return None if share is None else max(share - self._recorded - len(self._samples), 0)

    def push_sample(self, data: bytes) -> None:
        """Take over one step.

        Args:
            data: From `wire.codec.pack_sample`. When `info` has no `log_prob`, that of the action is computed
                with the weights in use.

        Raises:
            UsageError: It is no sample of this environment, or the policy has a memory and the agent was not
                asked about it.
            ClientRegistrationError: Another process took over the name.
        """
        sample = self._read_sample(data)
        with self._lock:
            sample = self._recalled(sample)
            self._link.progress.stepped(1)
            if sample.model_id != self._weights.header.model_id or len(self._samples) >= MOST_HELD:
                self._link.progress.drop(1)
                return
            if self._hidden_states is not None:
                sample = self._hidden_states.with_log_prob(sample, self._weights.policy)
            self._samples.append(sample)
            self._record()

    def sync(self, timeout: float = 100.0) -> None:
        """Send what is left of the round and wait for the next one, with its weights.

        It also returns when the share of the present round has grown, because another client was lost.

        Before the first sample it waits for the first round. Wishes of the runner (pause, stop) are not
        looked at: the loop belongs to whoever wrote it.

        Args:
            timeout: Longest wait, seconds.

        Raises:
            ServerTimeoutError: There was no round to play within that time; call it again.
            ClientRegistrationError: The server began another run or refused this client, or another process
                took over the name.
        """
        deadline = time.monotonic() + timeout
        self._link.set_phase("waiting")
        while True:
            with self._lock:
                self._check_run(self._link.view)
                self._record()
                self._cut()
                if self._has_grown():
                    return
                ready = self._next_round(self._link.view)
                if ready is not None:
                    self._use(self._ready_to_act(ready.header, ready.tensors))
                    return
            # A round that begins late wants what was held back for it.
            self._wait(self._has_news, deadline - time.monotonic(), timeout, "a round to play")

    def _has_news(self, view: ServerView) -> bool:
        self._check_run(view)
        if (self._samples and self._share() is not None) or self._has_grown():
            return True
        return self._next_round(view) is not None

    def _next_round(self, view: ServerView) -> ReadyRound | None:
        """Return the round to play next; the present one as long as nothing was sampled for it."""
        begun = self._recorded > 0 or bool(self._samples)
        return self._link.ready_round(view, self._weights.header.model_id if begun else -1)

    def _use(self, weights: Weights) -> None:
        """Act with other weights from now on."""
        self._link.progress.drop(len(self._samples))
        self._samples, self._recorded, self._delivered = [], 0, 0
        super()._use(weights)

    def _share(self) -> int | None:
        """Return the steps the present round wants; None while it is not known or there is no part in it."""
        grant = self._link.answer_of_trainer(self._link.view)
        if grant is None or grant.round is None or grant.round.round_id != self._weights.header.model_id:
            return None
        session = self._link.progress.session
        if session != self._session:
            # The share counts anew; what waits of the session before is sent in this one.
            waiting = self._uploader.session_steps + len(self._open)
            self._session, self._recorded, self._delivered = session, waiting, 0
        return grant.round.steps

    def _has_grown(self) -> bool:
        """Whether the share of a round has grown after it was recorded whole."""
        share = self._share()
        return share is not None and 0 < self._delivered < share

    def _record(self) -> None:
        """Record what was pushed, once the round has begun; until then it is held."""
        share = self._share()
        if share is None:
            return
        samples, self._samples = self._samples, []
        kept = samples[: max(share - self._recorded, 0)]
        self._link.progress.drop(len(samples) - len(kept))
        self._open += kept
        self._recorded += len(kept)
        whole = self._recorded >= share
        if whole:
            self._delivered = share
        if whole or len(self._open) >= self._assembler.capacity:
            self._cut()

    def _cut(self) -> None:
        samples, self._open = self._open, []
        self._send(samples, self._weights.header, self._weights.policy.log_prob)
