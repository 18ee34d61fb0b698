"""Small environments whose every number is known, registered by importing this module."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

Obs = NDArray[np.float32]


class Counter(gymnasium.Env[Obs, int]):
    """Shows (episode, step); the reward is the step. Ends after `length` steps, truncated in odd episodes."""

    observation_space = gymnasium.spaces.Box(0, 1000, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, length: int = 3) -> None:
        self.length = length
        self.episode, self.steps = -1, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Obs, dict[str, Any]]:
        super().reset(seed=seed)
        self.episode, self.steps = self.episode + 1, 0
        return self._obs(), {}

    def step(self, action: int) -> tuple[Obs, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        ended = self.steps == self.length
        odd = self.episode % 2 == 1
        return self._obs(), float(self.steps), ended and not odd, ended and odd, {}

    def _obs(self) -> Obs:
        return np.array([self.episode, self.steps], np.float32)


class NativeCounter(VectorEnv[Obs, NDArray[np.int64], Any]):
    """`Counter` in a vector form of its own, with lengths 3, 4, 5 …; resets in the next step."""

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(self, num_envs: int = 1) -> None:
        self.num_envs = num_envs
        self.single_observation_space = Counter.observation_space
        self.single_action_space = Counter.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.envs = [Counter(length=3 + index) for index in range(num_envs)]
        self.ended = [False] * num_envs

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Obs, dict[str, Any]]:
        self.ended = [False] * self.num_envs
        return np.stack([env.reset()[0] for env in self.envs]), {}

    def step(self, actions: NDArray[np.int64]) -> Any:
        results = [
            (env.reset()[0], 0.0, False, False) if ended else env.step(0)[:4]
            for env, ended in zip(self.envs, self.ended, strict=True)
        ]
        obs, reward, terminated, truncated = (np.array(column) for column in zip(*results, strict=True))
        self.ended = list(terminated | truncated)
        return obs, reward, terminated, truncated, {}


class Faulty(Counter):
    """A `Counter` with one fault."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault
        if fault == "constructor":
            raise RuntimeError("no graphics here")

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Obs, dict[str, Any]]:
        obs, info = super().reset(seed=seed)
        return (obs[:1], info) if self.fault == "many" else (obs, info)

    def step(self, action: int) -> Any:
        obs, reward, terminated, truncated, info = super().step(action)
        match self.fault:
            case "raises":
                raise RuntimeError("the game is gone")
            case "nan":
                obs[1] = np.nan
            case "dtype":
                return obs.astype(np.float64), reward, terminated, truncated, info
            case "reward":
                reward = float("inf")
            case "many":
                obs[1], reward = 2000 + self.steps, float("inf")
            case "info":
                return obs, reward, terminated, truncated, None
            case "flag":
                return obs, reward, 1, truncated, info
            case "old":
                return obs, reward, terminated, info
        return obs, reward, terminated, truncated, info


class Masked(Counter):
    """A `Counter` with four actions from 1 on, two of them valid, which raises when another one is taken.

    At the end of an episode it says that none is valid.
    """

    action_space = gymnasium.spaces.Discrete(4, start=1)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Obs, dict[str, Any]]:
        obs, _ = super().reset(seed=seed)
        return obs, {"action_mask": self.mask(False)}

    def step(self, action: int) -> tuple[Obs, float, bool, bool, dict[str, Any]]:
        if not self.mask(False)[action - 1]:
            raise ValueError(f"action {action} is not valid at step {self.steps}")
        obs, reward, terminated, truncated, _ = super().step(action)
        return obs, reward, terminated, truncated, {"action_mask": self.mask(terminated or truncated)}

    def mask(self, ended: bool) -> NDArray[np.int8]:
        """Return which actions are valid: one by the step, one by episode and step."""
        mask = np.zeros(4, np.int8)
        if not ended:
            mask[[self.steps % 4, (self.episode + self.steps + 1) % 4]] = 1
        return mask


def valid_at(obs: NDArray[Any]) -> NDArray[np.bool_]:
    """Return the masks of a `Masked` at (episode, step) `[B, 2]`, while its episode goes on."""
    episode, step = obs.astype(np.int64).T[..., None]
    valid: NDArray[np.bool_] = (np.arange(4) == step % 4) | (np.arange(4) == (episode + step + 1) % 4)
    return valid


SPACES_TAKEN: dict[str, gymnasium.Space[Any]] = {
    "choices": gymnasium.spaces.MultiDiscrete([3, 2, 4], start=[0, 5, -1]),
    "table": gymnasium.spaces.MultiDiscrete([[2, 3], [4, 5]]),
    "switches": gymnasium.spaces.MultiBinary(5),
    "grid": gymnasium.spaces.MultiBinary([2, 2]),
    "box": gymnasium.spaces.Box(np.float32([-2, 0, 5]), np.float32([2, 1, 6]), dtype=np.float32),
    "double": gymnasium.spaces.Box(-1.0, 3.0, (2, 2), np.float64),
    "free": gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32),
    "half": gymnasium.spaces.Box(np.float32([0, -1]), np.float32([np.inf, 1]), dtype=np.float32),
    "words": gymnasium.spaces.Text(5),
}


class Taking(Counter):
    """A `Counter` with another action space, which raises when it is given anything else.

    Args:
        takes: A name in `SPACES_TAKEN`.
        masked: With masks: of each choice the actions 0 and, with the step, one more are valid.
    """

    def __init__(self, takes: str, masked: bool = False, length: int = 3) -> None:
        super().__init__(length)
        self.action_space = SPACES_TAKEN[takes]  # type: ignore[assignment]
        self.masked = masked

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Obs, dict[str, Any]]:
        obs, _ = super().reset(seed=seed)
        return obs, self._told()

    def step(self, action: Any) -> tuple[Obs, float, bool, bool, dict[str, Any]]:
        space: Any = self.action_space
        if not space.contains(action):
            raise ValueError(f"{action!r} is not in {space}")
        if self.masked:
            taken = (action - space.start).reshape(-1)
            if not all(mask[index] for mask, index in zip(self.masks(self.steps), taken, strict=True)):
                raise ValueError(f"{action!r} is not valid at step {self.steps}")
        obs, reward, terminated, truncated, _ = super().step(action)
        return obs, reward, terminated, truncated, self._told()

    def masks(self, step: int) -> tuple[NDArray[np.int8], ...]:
        """Return the mask of each choice at a step."""
        sizes = self.action_space.nvec.reshape(-1)  # type: ignore[attr-defined]
        return tuple(np.isin(np.arange(n), (0, step % n)).astype(np.int8) for n in sizes)

    def _told(self) -> dict[str, Any]:
        return {"action_mask": self.masks(self.steps)} if self.masked else {}


class Camera(gymnasium.Env[NDArray[np.uint8], int]):
    """Shows a picture as bright as the number of steps; an episode has `length` of them."""

    observation_space = gymnasium.spaces.Box(0, 255, (12, 12), np.uint8)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, length: int = 9) -> None:
        self.length = length
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self._picture(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return self._picture(), 1.0, self.steps == self.length, False, {}

    def _picture(self) -> NDArray[np.uint8]:
        return np.full((12, 12), self.steps, np.uint8)


class Room(gymnasium.Env[dict[str, Any], int]):
    """Shows a picture as bright as the number of steps and, beside it, parts of every kind that say it too.

    Args:
        length: Steps of an episode, at most 9.
        picture: Show the picture.
        sides: Its shape.
    """

    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, length: int = 9, picture: bool = True, sides: tuple[int, ...] = (12, 12, 1)) -> None:
        self.length, self.picture, self.sides = length, picture, tuple(sides)
        self.steps = 0
        parts = {
            "door": gymnasium.spaces.Discrete(10, start=1),
            "lamps": gymnasium.spaces.MultiBinary(3),
            "place": gymnasium.spaces.Box(0.0, 1.0, (2,), np.float64),
            "things": gymnasium.spaces.Tuple(
                (gymnasium.spaces.MultiDiscrete([10, 2]), gymnasium.spaces.Box(-9, 99, (), np.int16))
            ),
        }
        if picture:
            parts["camera"] = gymnasium.spaces.Box(0, 255, self.sides, np.uint8)
        self.observation_space = gymnasium.spaces.Dict(parts)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self._obs(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return self._obs(), 1.0, self.steps == self.length, False, {}

    def _obs(self) -> dict[str, Any]:
        now, odd = self.steps, self.steps % 2
        found = {
            "door": 1 + now,
            "lamps": np.array([odd, 1 - odd, now == 0], np.int8),
            "place": np.array([now / self.length, 0.5]),
            "things": (np.array([now, odd]), np.array(-now, np.int16)),
        }
        return found | {"camera": np.full(self.sides, now, np.uint8)} if self.picture else found


class Doubled(gymnasium.Wrapper[Obs, int, Obs, int]):
    """Multiplies the reward."""

    def __init__(self, env: gymnasium.Env[Obs, int], factor: float = 2.0) -> None:
        super().__init__(env)
        self.factor = factor

    def step(self, action: int) -> Any:
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, float(reward) * self.factor, terminated, truncated, info


class Unseeded(gymnasium.Wrapper[Obs, int, Obs, int]):
    """Begins every episode by chance, whatever the seed: continuous observations do not come twice."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Obs, dict[str, Any]]:
        return self.env.reset(options=options)


for entry in (Counter, Faulty, Masked, Camera, Room, Taking):
    if (name := f"Toys{entry.__name__}-v0") not in gymnasium.registry:
        vector = NativeCounter if entry is Counter else None
        gymnasium.register(name, entry_point=entry, vector_entry_point=vector)
