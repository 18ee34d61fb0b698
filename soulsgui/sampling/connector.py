"""What a loop written by hand samples with: one environment's samples go out, weights come in.

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

import itertools
import os
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from soulsgui.config.like import ConfigLike, as_settings
from soulsgui.config.paths import default_folders
from soulsgui.config.settings_info import client_settings
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.environments.step import StepResult
from soulsgui.errors import ClientRegistrationError, ServerTimeoutError
from soulsgui.policies.numpy_mlp import NumpyMLPPolicy
from soulsgui.sampling.bounds import Bounds
from soulsgui.sampling.downloader import View
from soulsgui.sampling.identity import derived_seed
from soulsgui.sampling.link import ClientLink, Ready, check_protocol
from soulsgui.sampling.samples import Sample, read_episode_info, read_sample
from soulsgui.sampling.segments import SegmentRecorder
from soulsgui.wire.connection import Address
from soulsgui.wire.messages.chunk import digest_number, pack_chunk
from soulsgui.wire.messages.episode import Episode
from soulsgui.wire.messages.server_config import ON_POLICY, ServerConfig, contract_hash
from soulsgui.wire.weights import WeightsHeader

_JOIN_TIMEOUT_S = 100.0
_MOST_HELD = 65_536

_numbers = itertools.count(1)


class AgentAndModel(NamedTuple):
    """An agent, and the id of the weights it acts with.

    Attributes:
        agent: Takes an observation `[*obs_shape]`, draws an action.
        model_id: Id of the weights.
    """

    agent: Callable[[ArrayLike], int]
    model_id: int


class PPOConnector:
    """Connects one environment, stepped by hand, with a server that trains with PPO.

    The weights change in `sync` alone. A push never touches the network. Samples beyond the round's share,
    or acted on with other weights, are dropped and counted.

    Args:
        config: Settings, a dictionary or a namespace; its environment must be the run's.
        address: The server; None reads where the runner of the default data folder put it.
        name: The client's id; None makes one of host, process and a number.

    Raises:
        ConfigError: The configuration has mistakes.
        UsageError: No address is given and there is no runner, or the name can't be one.
        ClientRegistrationError: The name is in use, or the server refused this client.
        ServerTimeoutError: The server has no run, or did not answer in time.
    """

    def __init__(self, config: ConfigLike, address: Address | None = None, name: str | None = None) -> None:
        self.settings = as_settings(config)
        address = address or Address.read(default_folders().server_address)
        self._stop = threading.Event()
        self._lock = threading.RLock()
        self._samples: list[Sample] = []
        self._recorded = 0
        self._model_id = -1
        self._digest = 0
        self._link = ClientLink(address, name or _own_name(), 1, self._stop)
        try:
            self._link.open()
            self._config = self._join()
        except BaseException:
            self.close()
            raise

    # --- what a loop uses --------------------------------------------------------------------------

    @property
    def model_id(self) -> int:
        """Id of the weights in use."""
        return self._model_id

    @property
    def agent(self) -> Callable[[ArrayLike], int]:
        """Takes an observation `[*obs_shape]` and draws an action with the weights in use."""
        return self._act

    @property
    def steps_left(self) -> int | None:
        """Steps still to be sampled for the present round; None while it has not begun, or without us."""
        with self._lock:
            share = self._share()
            return None if share is None else max(share - self._recorded - len(self._samples), 0)

    def __enter__(self) -> AgentAndModel:
        self._lock.acquire()
        return AgentAndModel(self._act, self._model_id)

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def push_sample(self, data: bytes) -> None:
        """Take over one step.

        Args:
            data: From `wire.codec.pack_sample`. When `info` has no `log_prob`, that of the action is computed
                with the weights in use.

        Raises:
            UsageError: It is no sample of this environment.
            ClientRegistrationError: Another process took over the name.
        """
        sample = read_sample(data, self._spaces)
        with self._lock:
            self._link.progress.stepped(1)
            if sample.model_id != self._model_id or len(self._samples) >= _MOST_HELD:
                self._link.progress.dropped += 1
                return
            self._samples.append(sample)
            self._record()

    def push_episode_info(self, data: bytes) -> None:
        """Take over what is to be told of a finished episode.

        Args:
            data: JSON with `total_return` and `length`; `terminated` (true), `seconds` (0) and `env_index`
                (0) may be left out, everything else is known here. A `wire.messages.episode.Episode` as JSON
                is understood too.

        Raises:
            UsageError: It is not that.
            ClientRegistrationError: Another process took over the name.
        """
        info = read_episode_info(data)
        with self._lock:
            episode = Episode(
                run_id=self._config.run_id,
                attempt=self._attempt,
                number=self._link.progress.episode_ended(info.total_return, info.length),
                env_index=info.env_index,
                total_return=info.total_return,
                length=info.length,
                terminated=info.terminated,
                model_id=self._model_id,
                seconds=info.seconds,
            )
            self._uploader.push_episode(episode.to_json().encode())

    def sync(self, timeout: float = 100.0) -> None:
        """Send what is left of the round and wait for the next one, with its weights.

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
                ready = self._next_round(self._link.view)
                if ready is not None:
                    self._use(ready.header, ready.tensors)
                    return
            # A round that begins late wants what was held back for it.
            self._wait(self._has_news, deadline - time.monotonic(), timeout, "a round to play")

    def close(self) -> None:
        """Send what was cut, say goodbye and end every thread."""
        self._stop.set()
        self._link.close()

    # --- joining and waiting -----------------------------------------------------------------------

    def _join(self) -> ServerConfig:
        """Learn of the run, begin a session and take the first weights."""
        self._wait(lambda view: view.config is not None, _JOIN_TIMEOUT_S, _JOIN_TIMEOUT_S, "a run")
        config = self._link.view.config
        assert config is not None
        check_protocol(config)
        env, progress = self.settings.env, self._link.progress
        wrappers = client_settings(self.settings)["env.wrappers"]
        contract = contract_hash(env.id, env.kwargs, wrappers, config.spaces, ON_POLICY)
        progress.env_id = env.id
        self._spaces = SpacesSpec.from_json(config.spaces)
        self._within = Bounds(self._spaces.observation)
        self._policy = NumpyMLPPolicy(config.policy)
        self._rng = np.random.default_rng(derived_seed(config.seed, progress.client, config.attempt))
        box = self._spaces.observation
        self._recorder = SegmentRecorder(
            1, box.shape, box.dtype, int(config.settings["client.segment_length"])
        )
        self._attempt, self._contract = config.attempt, contract
        self._uploader = self._link.enter(config, contract, int(config.settings["client.buffer_bytes"]))
        self._config = config
        self._wait(self._is_welcome, _JOIN_TIMEOUT_S, _JOIN_TIMEOUT_S, "an answer of the trainer")
        view = self._link.view
        assert view.header is not None
        assert view.tensors is not None
        self._use(view.header, view.tensors)
        return config

    def _is_welcome(self, view: View) -> bool:
        self._check_run(view)
        return self._link.answer_of_trainer(view) is not None and view.tensors is not None

    def _has_news(self, view: View) -> bool:
        self._check_run(view)
        if self._samples and self._share() is not None:
            return True
        return self._next_round(view) is not None

    def _next_round(self, view: View) -> Ready | None:
        """Return the round to play next; the present one as long as nothing was sampled for it."""
        begun = self._recorded > 0 or bool(self._samples)
        return self._link.ready_round(view, self._model_id if begun else -1)

    def _check_run(self, view: View) -> None:
        if view.config is not None and view.config.run_id != self._config.run_id:
            raise ClientRegistrationError(
                f"The server began another run: {view.config.run_id}.", "Make a new connector for it."
            )

    def _wait(self, ready: Callable[[View], bool], left_s: float, timeout_s: float, what: str) -> None:
        if not self._link.wait(ready, max(left_s, 0.0)):
            raise ServerTimeoutError(
                f"The server has not given {self._link.progress.client} {what} within {timeout_s:g} s.",
                "See what it waits for: soulsgui status",
            )

    # --- recording ---------------------------------------------------------------------------------

    def _act(self, obs: ArrayLike) -> int:
        with self._lock:
            action, _ = self._policy.act(self._observation(obs), self._rng)
            return int(action[0])

    def _observation(self, obs: ArrayLike) -> NDArray[Any]:
        return self._within(np.asarray(obs, np.dtype(self._spaces.observation.dtype))[None])

    def _use(self, header: WeightsHeader, tensors: dict[str, NDArray[Any]]) -> None:
        """Act with other weights from now on."""
        progress = self._link.progress
        progress.dropped += len(self._samples)
        self._policy.load(tensors)
        self._samples, self._recorded = [], 0
        self._attempt, self._digest = header.attempt, digest_number(header.digest)
        self._model_id = progress.model_id = header.model_id
        progress.update = header.update
        self._link.set_phase("sampling")

    def _share(self) -> int | None:
        """Return the steps the present round wants; None while it is not known or there is no part in it."""
        grant = self._link.answer_of_trainer(self._link.view)
        if grant is None or grant.round is None or grant.round.round_id != self._model_id:
            return None
        return grant.round.steps_per_env

    def _record(self) -> None:
        """Record what was pushed, once the round has begun; until then it is held."""
        share = self._share()
        if share is None:
            return
        samples, self._samples = self._samples, []
        for sample in samples:
            if self._recorded >= share:
                self._link.progress.dropped += 1
                continue
            self._add(sample)
            self._recorded += 1
            if self._recorder.length == self._recorder.capacity:
                self._cut()
        if self._recorded >= share:
            self._cut()

    def _add(self, sample: Sample) -> None:
        if sample.step_id != self._recorder.next_step(0):
            self._cut()
            self._recorder.jump(0, sample.step_id)
        obs, next_obs = self._observation(sample.obs), self._observation(sample.next_obs)
        action = np.array([sample.action])
        if sample.log_prob is None:
            log_prob = self._policy.log_prob(obs, action)
        else:
            log_prob = np.array([sample.log_prob], np.float32)
        result = StepResult(
            next_obs=next_obs,
            reward=np.array([sample.reward], np.float32),
            terminated=np.array([sample.terminated]),
            truncated=np.array([sample.truncated]),
            valid=np.array([True]),
            reset_obs=next_obs,
        )
        self._recorder.add(obs, action, log_prob, result)

    def _cut(self) -> None:
        segments = self._recorder.cut(self._model_id, self._digest)
        if segments is not None:
            self._uploader.push_chunk(pack_chunk(self._config.run_id, self._contract, segments))


def _own_name() -> str:
    """Return a name that no other connector has."""
    host = "".join(sign for sign in socket.gethostname().split(".")[0] if sign.isascii() and sign.isalnum())
    return f"{host[:32] or 'pc'}-{os.getpid()}-{next(_numbers)}"
