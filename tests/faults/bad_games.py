"""Environments that go wrong, registered by importing this module."""

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from soulsgui.sampling import restart_hook

Obs = NDArray[np.float32]

BLOCK = 16 * 2**20
"""Bytes that `Leaks` loses at each step."""

HOOKED = "BAD_GAMES_HOOKED"
"""Variable that names the file which `start_the_game` lengthens."""


@restart_hook
def start_the_game() -> None:
    """Stands for a restart hook: leaves a mark that it was called."""
    with Path(os.environ[HOOKED]).open("a") as file:
        file.write("started\n")


class Game(gymnasium.Env[Obs, int]):
    """Counts its steps, 20 an episode; goes wrong at one step, unless the file `once` is there already."""

    observation_space = gymnasium.spaces.Box(0, 1000, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, wrong_at: int, once: str) -> None:
        self._wrong_at = wrong_at
        self._once = Path(once)
        self._steps = 0
        self._total = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Obs, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> tuple[Obs, float, bool, bool, dict[str, Any]]:
        time.sleep(0.002)
        self._steps += 1
        self._total += 1
        if self._total == self._wrong_at:
            with suppress(FileExistsError):
                self._once.touch(exist_ok=False)
                self.go_wrong()
        return np.full(1, self._steps, np.float32), 1.0, self._steps == 20, False, {}

    def go_wrong(self) -> None:
        """Do what is wrong."""


class Raises(Game):
    def go_wrong(self) -> None:
        raise RuntimeError("the game has crashed")


class Quits(Game):
    def go_wrong(self) -> None:
        raise SystemExit(3)


class Hangs(Game):
    def go_wrong(self) -> None:
        time.sleep(100_000)


class Slow(Game):
    """The game shows a dialogue, and does hardly anything more."""

    _slow = False

    def step(self, action: int) -> tuple[Obs, float, bool, bool, dict[str, Any]]:
        if self._slow:
            time.sleep(0.3)
        return super().step(action)

    def go_wrong(self) -> None:
        self._slow = True


class Leaks(Game):
    """The game loses memory from then on."""

    _lost: list[bytearray] | None = None

    def step(self, action: int) -> tuple[Obs, float, bool, bool, dict[str, Any]]:
        if self._lost is not None:
            block = bytearray(BLOCK)
            block[::4096] = b"x" * (BLOCK // 4096)
            self._lost.append(block)
        return super().step(action)

    def go_wrong(self) -> None:
        self._lost = []


for _game in (Raises, Quits, Hangs, Slow, Leaks):
    gymnasium.register(f"Bad{_game.__name__}-v0", _game)
