"""What a loop written by hand samples with: one environment's samples go out, weights come in.

What `PPOConnector` and `DQNConnector` have in common.
"""

import itertools
import logging
import os
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from soulsgui.config.layers import ConfigLike, as_settings
from soulsgui.config.paths import default_folders
from soulsgui.config.schema import client_settings
from soulsgui.environments.actions import ActionSpec, BoxActionSpec
from soulsgui.environments.choices import action_left, read_mask
from soulsgui.environments.imports import Loaded, restrict_imports
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.errors import ClientRegistrationError, ServerTimeoutError, UsageError
from soulsgui.policies.numpy_recurrent import Floats, Remembered, remembered_by
from soulsgui.policies.policy import Policy, make_policy
from soulsgui.sampling.connectors.samples import Assembler, LogProb, Sample, read_episode_info, read_sample
from soulsgui.sampling.downloader import ServerView
from soulsgui.sampling.heartbeat import derived_seed
from soulsgui.sampling.link import ClientLink, check_network, checked_config
from soulsgui.sampling.rollout import Bounds
from soulsgui.sampling.sampling_modes import explore
from soulsgui.wire.codec import WeightsHeader
from soulsgui.wire.connection import Address
from soulsgui.wire.keys import name_of_machine
from soulsgui.wire.messages.chunk import pack_chunk
from soulsgui.wire.messages.server_config import OFF_POLICY, ServerConfig, contract_hash, family_of, state_of
from soulsgui.wire.messages.session import Episode, Grant

logger = logging.getLogger(__name__)

MOST_HELD = 65_536
"""Most samples that wait to be recorded; further ones are dropped and counted."""

_MOST_STATES = 4096
"""So many questions to the agent may come between one and the push of its step."""
_MOST_DRAWN = 65_536
_JOIN_TIMEOUT_S = 100.0
_ANOTHER_RUN_S = 10.0
"""How long a run that can't be joined may be the one before, of whose end a server says nothing."""

_numbers = itertools.count(1)


class HiddenStateCache:
    """Finds for each pushed step, by its observation, the hidden state before it."""

    def __init__(self, within: Bounds, dtype: str) -> None:
        self._within, self._dtype = within, np.dtype(dtype)
        self._acted: deque[tuple[bytes, dict[str, Floats]]] = deque(maxlen=_MOST_STATES)

    def keep(self, obs: NDArray[Any], remembered: Remembered) -> None:
        """Keep the hidden state before an observation `[1, *shape]` is acted on."""
        self._acted.append((obs.tobytes(), {name: rows[0] for name, rows in remembered.fields.items()}))

    def with_state(self, sample: Sample) -> Sample:
        """Return a step with the hidden state before it; older entries are dropped."""
        wanted = self._observation(sample).tobytes()
        places = [place for place, (seen, _) in enumerate(self._acted) if seen == wanted]
        if not places:
            raise UsageError(
                f"The agent was not asked about the observation of step {sample.step_id}: what its policy "
                "remembered then is not known.",
                "Policies of this run have a memory: call agent(obs) once for each step of an episode, and "
                "push the same observation.",
            )
        for _ in range(places[0]):
            self._acted.popleft()
        return replace(sample, state=self._acted.popleft()[1])

    def with_log_prob(self, sample: Sample, policy: Policy) -> Sample:
        """Return a step with its log-probability under its hidden state; the policy's state stays."""
        if sample.log_prob is not None:
            return sample
        remembered = remembered_by(policy)
        now, remembered.fields = remembered.fields, {name: row[None] for name, row in sample.state.items()}
        mask = None if sample.mask is None else sample.mask[None]
        try:
            logs = policy.log_prob(self._observation(sample), np.array([sample.action]), mask)
        finally:
            remembered.fields = now
        return replace(sample, log_prob=float(logs[0]))

    def _observation(self, sample: Sample) -> NDArray[Any]:
        return self._within(np.asarray(sample.obs, self._dtype)[None])


class ActionCache:
    """Remembers the stored form of actions within bounds, by what the environment takes for them.

    Such an action was squashed, and near its bounds many draws become the same number. Of equal actions the
    newest draw counts; of those that nobody remembers the policy says what might have been drawn.
    """

    def __init__(self, space: ActionSpec) -> None:
        self._space = space
        self._squashed = isinstance(space, BoxActionSpec)
        self._drawn: dict[bytes, NDArray[Any]] = {}

    def given_out(self, action: NDArray[Any], policy: Policy) -> Any:
        """Return what the environment takes for one stored action; it is remembered."""
        taken = policy.to_environment(action[None])[0]
        if not self._squashed:
            return taken.item() if taken.ndim == 0 else taken
        row = self._space.read(taken)
        if len(self._drawn) >= _MOST_DRAWN:
            del self._drawn[next(iter(self._drawn))]
        # At the end, also when it was there.
        self._drawn.pop(row.tobytes(), None)
        self._drawn[row.tobytes()] = action
        return taken

    def stored(self, row: NDArray[Any], policy: Policy) -> NDArray[Any]:
        """Return how an action is stored."""
        if not self._squashed:
            return row
        drawn = self._drawn.get(row.tobytes())
        if drawn is not None:
            return drawn
        stored: NDArray[np.float32] = policy.from_environment(row[None])[0]
        return stored


class ConnectorAgent(Protocol):
    """Draws actions.

    A policy with a memory takes each call for a step: call it once for each step of an episode, in order.
    It begins anew when the end of an episode is pushed (push that before the next call), and at
    `BaseConnector.begin_episode`, for an episode that is given up.
    """

    def __call__(self, obs: Any, action_mask: ArrayLike | None = None) -> Any:
        """Return an action as the environment takes it: an `int`, or an array.

        Args:
            obs: Observation as the environment shows it: an array, a number, a tuple or a dictionary.
            action_mask: One number for each action, 0 for one that is not valid, as Gymnasium's environments
                put it into their infos; of several choices one after the other. None: all are valid.

        Raises:
            UsageError: The mask leaves no action, or it is no such observation.
            EnvironmentCheckError: It has another shape.
        """


class AgentAndModel(NamedTuple):
    """An agent, and the id of the weights it acts with."""

    agent: ConnectorAgent
    model_id: int


class Weights(NamedTuple):
    """Weights that are ready to act with."""

    policy: Policy
    header: WeightsHeader


class BaseConnector(ABC):
    """Connects one environment, stepped by hand, with a server that trains.

    Args:
        config: Settings, a dictionary or a namespace; its environment must be the run's.
        address: The server; None reads where the runner of the default data folder put it.
        name: The client's id; None makes one of host, process and a number.

    Raises:
        ConfigError: The configuration has mistakes.
        UsageError: No address is given and there is no runner, or the name can't be one.
        ClientRegistrationError: The name is in use, the server refused this client, or its run's algorithm
            is of the other family.
        ServerTimeoutError: The server has no run, or did not answer in time.
    """

    _FAMILY: ClassVar[str]

    def __init__(self, config: ConfigLike, address: Address | None = None, name: str | None = None) -> None:
        self.settings = as_settings(config)
        address = address or Address.read(default_folders().server_address)
        self._stop = threading.Event()
        self._lock = threading.RLock()
        self._held = 0
        self._grant: Grant | None = None  # how to explore; None: as the policy itself draws
        self._remembered = Remembered()
        own_name = f"{name_of_machine()[:32]}-{os.getpid()}-{next(_numbers)}"
        self._link = ClientLink(address, name or own_name, 1, self._stop)
        try:
            self._link.open()
            self._join()
        except BaseException:
            self.close()
            raise

    @property
    def model_id(self) -> int:
        """Id of the weights in use."""
        with self._lock:
            return self._in_use().header.model_id

    @property
    def agent(self) -> ConnectorAgent:
        """Takes an observation, perhaps a mask, and draws an action with the weights in use."""
        return self._act

    def begin_episode(self) -> None:
        """Forget what was seen: what comes next begins an episode, though no end of this one was pushed."""
        with self._lock:
            self._remembered.begin(1)

    def __enter__(self) -> AgentAndModel:
        with self._lock:
            model_id = self._in_use().header.model_id
            self._lock.acquire()
            self._held += 1
        return AgentAndModel(self._act, model_id)

    def __exit__(self, *_: object) -> None:
        self._held -= 1
        self._lock.release()

    @abstractmethod
    def push_sample(self, data: bytes) -> None:
        """Take over one step from `wire.codec.pack_sample`."""

    def push_episode_info(self, data: bytes) -> None:
        """Report a finished episode.

        Args:
            data: JSON with `total_return` and `length`; `terminated` (true), `seconds` (0) and `env_index`
                (0) may be left out, everything else is known here. A `wire.messages.session.Episode` as JSON
                is understood too.

        Raises:
            UsageError: It is not that.
            ClientRegistrationError: Another process took over the name.
        """
        info = read_episode_info(data)
        header = self._weights.header
        number = self._link.progress.episode_ended(info.total_return, info.length)
        told = {"run_id": self._config.run_id, "attempt": header.attempt, "model_id": header.model_id}
        episode = Episode.model_validate(told | {"number": number} | vars(info))
        self._uploader.push_episode(episode.to_json().encode())

    def close(self) -> None:
        """Send what was cut, say goodbye and end every thread."""
        self._stop.set()
        self._link.close()

    def _join(self) -> None:
        """Learn of the run, begin a session and take the first weights; begin anew if another run begins."""

        def described(view: ServerView) -> bool:
            return view.config is not None and bool(view.config.spaces)

        joined = False
        while not joined:
            self._wait(described, _JOIN_TIMEOUT_S, _JOIN_TIMEOUT_S, "a run")
            told = self._link.view.config
            assert told is not None
            try:
                config = checked_config(told, self._link.progress)
                self._check_family(config)
            except ClientRegistrationError as error:
                logger.info("%s Another run is waited for.", error.message)
                if not self._link.wait(partial(_replaced, told), _ANOTHER_RUN_S):
                    raise
            else:
                joined = self._join_run(config)

    def _join_run(self, config: ServerConfig) -> bool:
        """Begin a session and take the first weights; return False when another run began meanwhile."""
        env, progress = self.settings.env, self._link.progress
        wrappers = client_settings(self.settings)["env.wrappers"]
        state = state_of(config.policy)
        contract = contract_hash(env.id, env.kwargs, wrappers, config.spaces, self._FAMILY, state)
        progress.env_id = env.id
        self._config, self._contract = config, contract
        self._spaces = SpacesSpec.from_json(config.spaces)
        box = self._spaces.observation
        self._within = Bounds(box)
        self._rng = np.random.default_rng(derived_seed(config.seed, progress.client, config.attempt))
        self._given_out = ActionCache(self._spaces.action)
        segment_length = int(config.settings["client.segment_length"])
        self._assembler = Assembler(self._spaces, segment_length, state)
        self._hidden_states = HiddenStateCache(self._within, box.dtype) if state else None
        buffer_bytes = int(config.settings["client.buffer_bytes"])
        self._uploader = self._link.enter(config, contract, buffer_bytes, drops=self._FAMILY == OFF_POLICY)
        views: list[ServerView] = []

        def is_welcome(view: ServerView) -> bool:
            views.append(view)
            if _replaced(config, view):
                return True
            return self._link.answer_of_trainer(view) is not None and self._brings_weights(view)

        self._wait(is_welcome, _JOIN_TIMEOUT_S, _JOIN_TIMEOUT_S, "an answer of the trainer")
        view = views[-1]
        if _replaced(config, view):
            return False
        assert view.header is not None
        assert view.tensors is not None
        self._use(self._ready_to_act(view.header, view.tensors))
        return True

    def _check_family(self, config: ServerConfig) -> None:
        algorithm = config.settings["algorithm"]
        family = family_of(algorithm)
        if family != self._FAMILY:
            raise ClientRegistrationError(
                f"The server's run trains with {algorithm}, which is {family}.",
                f"Use {'DQNConnector' if family == OFF_POLICY else 'PPOConnector'} for it.",
            )

    def _check_run(self, view: ServerView) -> None:
        if view.config is not None and _replaced(self._config, view):
            raise ClientRegistrationError(
                f"The server started another run: {view.config.run_id}.", "Make a new connector for it."
            )

    def _wait(self, ready: Callable[[ServerView], bool], left_s: float, timeout_s: float, what: str) -> None:
        if not self._link.wait(ready, max(left_s, 0.0)):
            raise ServerTimeoutError(
                f"The server has not given {self._link.progress.client} {what} within {timeout_s:g} s.",
                "See what it waits for: soulsgui status",
            )

    def _brings_weights(self, view: ServerView) -> bool:
        """Whether a view has weights, and of this run."""
        return view.header is not None and view.header.run_id == self._config.run_id

    def _ready_to_act(self, header: WeightsHeader, tensors: dict[str, NDArray[Any]]) -> Weights:
        if self._link.address.user:  # the server of an invitation may name only what is here already
            restrict_imports(Loaded())
        policy = make_policy(self._config.policy)
        policy.load(tensors)
        check_network(policy, header, self._spaces.observation)
        return Weights(policy, header)

    def _use(self, weights: Weights) -> None:
        """Act with other weights from now on; the lock is held, or there is one thread yet."""
        progress = self._link.progress
        remembered = remembered_by(weights.policy)
        remembered.fields = self._remembered.fields or remembered.fields
        self._remembered = remembered
        self._weights = weights
        progress.model_id, progress.update = weights.header.model_id, weights.header.update
        self._link.set_phase("sampling")

    def _in_use(self) -> Weights:
        """Return the weights to act with; the lock is held."""
        return self._weights

    def _act(self, obs: Any, action_mask: ArrayLike | None = None) -> Any:
        mask, sizes = None, self._spaces.action.sizes
        if action_mask is not None and sizes:
            mask = read_mask(action_mask, sum(sizes))[None]
            if not action_left(mask, sizes)[0]:
                raise UsageError("The action mask leaves no action to choose.")
        seen = self._observation(obs)
        with self._lock:
            policy = self._in_use().policy
            if self._hidden_states is not None:
                self._hidden_states.keep(seen, self._remembered)
            action, _ = explore(policy, seen, self._rng, self._grant, mask)
            return self._given_out.given_out(action[0], policy)

    def _recalled(self, sample: Sample) -> Sample:
        """Return a pushed step with the hidden state before it; drop the state where its episode ends."""
        if self._hidden_states is None:
            return sample
        with self._lock:
            found = self._hidden_states.with_state(sample)
            if sample.terminated or sample.truncated:
                self.begin_episode()
            return found

    def _read_sample(self, data: bytes) -> Sample:
        policy = self._weights.policy
        return read_sample(data, self._spaces, lambda action: self._given_out.stored(action, policy))

    def _observation(self, obs: Any) -> NDArray[Any]:
        space = self._spaces.observation
        try:
            return self._within(np.asarray(space.read(obs), space.dtype)[None])
        except ValueError as error:
            raise UsageError(f"This is not an observation of the environment: {error}.") from error

    def _send(self, samples: Sequence[Sample], header: WeightsHeader, log_prob: LogProb) -> None:
        """Send samples, all of them chosen by the weights of this header."""
        most = self._assembler.capacity
        for start in range(0, len(samples), most):
            segments = self._assembler.assemble(samples[start : start + most], header, log_prob)
            chunk = pack_chunk(self._config.run_id, self._contract, segments)
            self._uploader.push_chunk(chunk, segments.steps, int(segments.model_id_first.max()))


def _replaced(config: ServerConfig, view: ServerView) -> bool:
    """Whether the server describes another run than before."""
    return view.config is not None and view.config.run_id != config.run_id
