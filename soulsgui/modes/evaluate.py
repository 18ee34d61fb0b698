"""Evaluation: how good a policy is by itself, over episodes whose beginnings are always the same.

Episode `k` begins from seed `s + k`, whatever was played before it, and every episode that is begun counts:
the first ones to end would be the short ones.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from soulsgui.config.schema import Settings, client_settings
from soulsgui.config.sections.run import EnvSettings
from soulsgui.environments.choices import MASK_KEY, read_mask
from soulsgui.environments.imports import restrict_imports
from soulsgui.environments.make import BROKEN, Env, longest_episode, make_env
from soulsgui.environments.pictures import PICTURES, check_shown, rendered
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.environments.step import ObservationCheck, check_rewards
from soulsgui.errors import CheckpointError, ProcessFault, SoulsGuiError, UsageError
from soulsgui.policies.numpy_recurrent import remembered_by
from soulsgui.policies.policy import Mask, Policy, make_policy, outputs_now
from soulsgui.policies.value_based import log_softmax, only_valid
from soulsgui.sampling.rollout import Bounds
from soulsgui.sampling.watchdog import Watchdog, fault_of, limits_of
from soulsgui.training.checkpoint import read_checkpoint
from soulsgui.wire.control.results import episode_figures
from soulsgui.wire.manifest import Manifest
from soulsgui.wire.messages.server_config import Execution, algorithm_name

MOST_SIDE_BY_SIDE = 16  # environments that are stepped side by side, at most

_VALUED = frozenset({"dqn"})  # algorithms whose policies value actions, and draw nothing
_USUAL_RATE, _LOWEST_RATE, _HIGHEST_RATE = 30.0, 1.0, 60.0

MakeEnv = Callable[[], Env]

T = TypeVar("T")


class Unfinished(Exception):
    """The evaluation was ended before all its episodes were."""


class EvaluationError(SoulsGuiError):
    """The environment failed in an evaluation."""


@dataclass(frozen=True)
class Evaluation:
    """What the episodes of an evaluation gave, in the order of their seeds."""

    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    seconds: float
    cut: int = 0
    max_steps: int | None = None

    @property
    def episodes(self) -> int:
        """How many there were."""
        return len(self.returns)

    @property
    def mean_return(self) -> float:
        """Mean of the returns."""
        return fmean(self.returns)

    @property
    def std_return(self) -> float:
        """Standard deviation of the returns, of these episodes alone (not corrected)."""
        return pstdev(self.returns)

    @property
    def cut_words(self) -> str:
        """Words about episodes that were cut short; empty when none was."""
        if not self.cut:
            return ""
        return (
            f"{self.cut} of {self.episodes} episodes did not end and were cut at {self.max_steps:,} steps "
            "(evaluation.max_steps): the environment sets no limit"
        )

    def __add__(self, further: "Evaluation") -> "Evaluation":
        """Return both as one."""
        return Evaluation(
            self.returns + further.returns,
            self.lengths + further.lengths,
            self.seconds + further.seconds,
            self.cut + further.cut,
            self.max_steps,
        )

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON-able data."""
        return asdict(self) | episode_figures(self.returns, self.lengths)


@dataclass(frozen=True)
class Frame:
    """What is seen of an episode before one of its steps, and once it has ended.

    Attributes:
        picture: `[height, width, 3]` uint8.
        rate: How many of its steps the environment makes in a second, for who watches it.
        episode: Its number, from 0.
        step: How many steps it has made.
        return_so_far: Sum of their rewards.
        action: What the policy does now, as numbers; none at the end.
        says: What the policy says of numbered actions, if there are any; none at the end.
        said: That, by action; minus infinity where one is not valid.
        ended: Whether the episode has ended.
    """

    picture: NDArray[np.uint8]
    rate: float
    episode: int
    step: int
    return_so_far: float
    action: tuple[float, ...]
    says: Literal["", "values", "probabilities"]
    said: tuple[float, ...]
    ended: bool


Show = Callable[[Callable[[], Frame]], None]
"""Shows somebody a frame, which is made when it is called for; a frame not called for costs nothing."""


@dataclass(frozen=True)
class Asked:
    """Which episodes are to be played, and who hears of them.

    Attributes:
        episodes: How many, at least one.
        seed: Of the first of them.
        greedy: Whether the best action is taken, rather than drawn.
        told: Called before each step with how many episodes have ended, and how many steps were made.
        show: Called with each frame; the environment renders as `rgb_array`, one episode after the other.
    """

    episodes: int
    seed: int = 0
    greedy: bool = True
    told: Callable[[int, int], None] | None = None
    show: Show | None = None


def check_spaces(make: MakeEnv, trained_on: Mapping[str, Any], env_id: str) -> None:
    """Make sure that an environment shows and takes what a policy was trained on."""
    env = make()
    try:
        here = SpacesSpec.from_env(env.observation_space, env.action_space).to_json()
    finally:
        env.close()
    for which, is_here in here.items():
        # Whether there are masks is seen at the first reset alone.
        if trained_on.get(which, {}) | {"masked": None} != is_here | {"masked": None}:
            raise CheckpointError(
                f"It was trained with a different {which} space than {env_id} has here.",
                "Evaluate it with the environment, the arguments and the wrappers it was trained with.",
            )


def evaluate(
    policy: Policy,
    make: MakeEnv,
    asked: Asked,
    go_on: Callable[[], bool] | None = None,
    max_steps: int | None = None,
    watchdog: Watchdog | None = None,
    valued: bool = False,
) -> Evaluation:
    """Play episodes with a policy that holds weights already.

    Args:
        policy: Who plays.
        make: Makes an environment.
        asked: What they play.
        go_on: Asked before each step; what is not to go on raises `Unfinished`.
        max_steps: After how many an episode is cut; None: never.
        watchdog: Notices an environment that hangs, or takes too much memory.
        valued: Whether what the policy says of actions are values.
    """

    def going_on() -> None:
        if go_on is not None and not go_on():
            raise Unfinished
        if asked.told is not None:
            asked.told(play.ended, play.steps)

    began = time.monotonic()
    play = _Play(policy, asked, max_steps, watchdog, valued)
    with ExitStack() as opened:
        for _ in range(min(asked.episodes, MOST_SIDE_BY_SIDE if asked.show is None else 1)):
            going_on()
            with play.watched("being made"):
                env = make()
            opened.callback(play.close, env)
            going_on()
            play.fill_slot(env)
        while play.slots:
            going_on()
            play.step()
    return Evaluation(tuple(play.returns), tuple(play.lengths), time.monotonic() - began, play.cut, max_steps)


@dataclass
class _Slot:
    """One environment and the episode that is played in it."""

    env: Env
    episode: int
    obs: NDArray[Any]
    mask: Mask | None
    remembered: dict[str, NDArray[np.float32]]


class _Play:
    def __init__(
        self, policy: Policy, asked: Asked, max_steps: int | None, watchdog: Watchdog | None, valued: bool
    ) -> None:
        self._asked, self._watchdog, self._valued = asked, watchdog, valued
        self.slots: list[_Slot] = []
        self.cut = 0
        self.steps = 0
        self.returns = [0.0] * asked.episodes
        self.lengths = [0] * asked.episodes
        self._max_steps = max_steps
        self._policy = policy
        self._remembered = remembered_by(policy)
        self._rng = np.random.default_rng(asked.seed)
        self._begun = 0
        self._spaces: SpacesSpec | None = None

    @property
    def ended(self) -> int:
        """How many episodes have ended."""
        return self._begun - len(self.slots)

    def watched(self, doing: str) -> AbstractContextManager[None]:
        """Watch an environment being made or closed."""
        return self._watchdog.inside(doing) if self._watchdog is not None else nullcontext()

    def close(self, env: Env) -> None:
        """Close an environment; what it raises becomes an `EvaluationError`."""
        with self.watched("being closed"), _in_words("closing"):
            env.close()

    def guarded(self, work: Callable[[], T], doing: str) -> T:
        """Call an environment under the watchdog; what it raises becomes an `EvaluationError`."""
        with _in_words(doing):
            if self._watchdog is None:
                return work()
            self._watchdog.enter(doing)
            try:
                return work()
            finally:
                self._watchdog.leave()

    def fill_slot(self, env: Env) -> None:
        """Begin the next episode in an environment, if there is one left to play."""
        if self._begun == len(self.returns):
            return
        if self._spaces is None:  # they are all the same
            self._spaces = spec = SpacesSpec.from_env(env.observation_space, env.action_space)
            self._check = ObservationCheck(spec.observation)
            self._within = Bounds(spec.observation)  # as in training: what lies outside is moved onto them
        episode = self._begun
        self._begun += 1
        obs, info = self.guarded(lambda: env.reset(seed=self._asked.seed + episode), "a reset")
        self._remembered.begin(1)
        blank = {name: rows[0] for name, rows in self._remembered.fields.items()}
        self.slots.append(_Slot(env, episode, *self._read(obs, info), blank))

    def step(self) -> None:
        present, self.slots = self.slots, []
        remembered = present[0].remembered
        actions = self._choose(present)
        if self._asked.show is not None:
            self._asked.show(lambda: self._frame(present[0], actions[0], remembered))
        for slot, action in zip(present, actions, strict=True):
            self._step_one(slot, action)

    def _frame(
        self, slot: _Slot, action: Any = None, remembered: Mapping[str, NDArray[np.float32]] | None = None
    ) -> Frame:
        """Return what is seen of an episode, without an action once it has ended."""
        picture = self.guarded(lambda: rendered(slot.env), "rendering")
        says: Literal["", "values", "probabilities"] = ""
        said = np.zeros(0, np.float32)
        if action is not None and self._policy.num_actions:
            self._remembered.fields = {name: row[None] for name, row in (remembered or {}).items()}
            outputs = outputs_now(self._policy, self._within(slot.obs[None]))
            said = only_valid(outputs, None if slot.mask is None else slot.mask[None])[0]
            says = "values" if self._valued else "probabilities"
            said = said if self._valued else np.exp(log_softmax(said))
        return Frame(
            picture,
            _rate(slot.env),
            slot.episode,
            self.lengths[slot.episode],
            self.returns[slot.episode],
            () if action is None else tuple(np.ravel(action).tolist()),
            says,
            tuple(said.tolist()),
            ended=action is None,
        )

    def _step_one(self, slot: _Slot, action: Any) -> None:
        obs, reward, terminated, truncated, info = self.guarded(lambda: _stepped(slot.env, action), "a step")
        self.returns[slot.episode] += float(reward)
        self.lengths[slot.episode] += 1
        self.steps += 1
        too_long = self.lengths[slot.episode] == self._max_steps and not (terminated or truncated)
        self.cut += too_long
        if terminated or truncated or too_long:
            if self._asked.show is not None:
                self._asked.show(lambda: self._frame(slot))
            self.fill_slot(slot.env)
        else:
            slot.obs, slot.mask = self._read(obs, info)
            self.slots.append(slot)

    def _choose(self, slots: Sequence[_Slot]) -> NDArray[Any]:
        obs = self._within(np.stack([slot.obs for slot in slots]))
        masks = [slot.mask for slot in slots if slot.mask is not None]
        mask = np.stack(masks) if len(masks) == len(slots) else None
        memory, policy = self._remembered, self._policy
        memory.fields = {name: np.stack([slot.remembered[name] for slot in slots]) for name in memory.shapes}
        actions = policy.greedy(obs, mask) if self._asked.greedy else policy.act(obs, self._rng, mask)[0]
        for index, slot in enumerate(slots):
            slot.remembered = {name: rows[index] for name, rows in memory.fields.items()}
        return policy.to_environment(actions)

    def _read(self, obs: Any, info: Mapping[str, Any]) -> tuple[NDArray[Any], Mask | None]:
        """Return an observation as it is stored, and which actions are valid at it."""
        spaces = self._spaces
        assert spaces is not None

        def read() -> NDArray[Any]:
            found = spaces.observation.read(obs)
            self._check(found[None])
            return found

        choices = sum(spaces.action.sizes)
        mask = read_mask(info[MASK_KEY], choices) if choices and MASK_KEY in info else None
        return self.guarded(read, "showing an observation"), mask


def _rate(env: Env) -> float:
    """Return how many steps an environment is shown in a second."""
    told = env.metadata.get("render_fps")
    if not isinstance(told, int | float) or not told >= _LOWEST_RATE:
        return _USUAL_RATE
    return min(float(told), _HIGHEST_RATE)


def _stepped(env: Env, action: Any) -> Any:
    """Step an environment, and see that the reward is a number."""
    result = env.step(action)
    with np.errstate(over="ignore"):
        check_rewards(np.array([result[1]], np.float32))
    return result


@contextmanager
def _in_words(doing: str) -> Iterator[None]:
    """Turn what an environment raises into an `EvaluationError`; what only a new process mends stays."""
    try:
        yield
    except ProcessFault:
        raise
    except BROKEN as error:
        fault = fault_of(error, doing)
        raise EvaluationError(
            fault.message, "Play it at random to see more: soulsgui env check ID"
        ) from error


@dataclass(frozen=True)
class Trained:
    """What is needed to play with a checkpoint."""

    info: Manifest
    policy: Policy
    maker: MakeEnv


def open_trained(path: Path, env: EnvSettings, shown: bool = False) -> Trained:
    """Read a checkpoint, make its policy, and see whether the environment suits it, and can be shown."""
    checkpoint = read_checkpoint(path)
    kwargs = env.kwargs
    if shown:
        check_shown(env.id)
        kwargs = kwargs | {"render_mode": PICTURES}
    maker = partial(make_env, env.id, kwargs, env.wrappers)
    try:
        policy = make_policy(checkpoint.info.policy)
        policy.load(checkpoint.weights)
        check_spaces(maker, checkpoint.info.spaces, env.id)
    except CheckpointError as error:
        raise CheckpointError(f"{path} can't be evaluated: {error.message}", error.remedy) from error
    return Trained(checkpoint.info, policy, maker)


def evaluate_checkpoint(
    path: Path,
    info: Manifest,
    settings: Settings,
    asked: Asked,
    on_hang: Callable[[ProcessFault], None],
) -> tuple[Evaluation, dict[str, Any]]:
    """Play episodes with a checkpoint, whose settings somebody agreed to; return also a report as JSON.

    Args:
        asked: What it plays.
        on_hang: Called in another thread when the environment does not answer.
    """
    if not asked.greedy and info.algorithm in _VALUED:
        name = algorithm_name(info.algorithm, info.agent)
        raise UsageError(f"{path} is of {name}, whose policy does not sample: omit --stochastic.")
    env = settings.env
    watchdog = Watchdog(limits_of(settings), on_hang)
    watchdog.start()
    # The checkpoint's own policy may name something else.
    restrict_imports(Execution.of(client_settings(settings)).names)
    try:
        with watchdog.inside("being made"):
            trained = open_trained(path, env, asked.show is not None)
        longest = longest_episode(env.id, env.kwargs, env.wrappers, settings.evaluation.max_steps)
        valued = info.algorithm in _VALUED
        found = evaluate(
            trained.policy, trained.maker, asked, max_steps=longest, watchdog=watchdog, valued=valued
        )
    finally:
        restrict_imports(None)
        watchdog.close()
    names = ("run_id", "model_id", "env_steps", "updates", "algorithm", "agent")
    report = found.to_json() | {name: getattr(trained.info, name) for name in names}
    report |= {"checkpoint": str(path), "env_id": env.id, "seed": asked.seed, "greedy": asked.greedy}
    return found, report
