"""Environments under a watchdog: whatever goes wrong in them becomes a fault that says where."""

import traceback
from typing import Any

from numpy.typing import NDArray

from soulsgui.environments.make import BROKEN, Vector
from soulsgui.environments.step import EnvStepper, StepResult
from soulsgui.errors import EnvironmentFault
from soulsgui.printable import error_words, printable
from soulsgui.sampling.pace import Pace
from soulsgui.sampling.watchdog import Watchdog


class WatchedStepper(EnvStepper):
    """As `EnvStepper`; an environment that raises becomes an `EnvironmentFault`.

    Args:
        vector_env: The environments.
        watchdog: Is told when they are busy.
    """

    def __init__(self, vector_env: Vector, watchdog: Watchdog) -> None:
        super().__init__(vector_env)
        self._watchdog = watchdog
        self._pace = Pace()

    @property
    def step_s(self) -> float:
        """Recent mean time of a step of all of them, seconds."""
        return self._pace.step_s

    def reset(self, seed: int | None = None) -> NDArray[Any]:
        """Begin anew, as `EnvStepper.reset`.

        Raises:
            EnvironmentFault: The environment raised.
        """
        self._watchdog.enter("a reset")
        try:
            return super().reset(seed)
        except BROKEN as error:
            raise fault_of(error, "a reset") from error
        finally:
            self._watchdog.leave()

    def step(self, actions: NDArray[Any]) -> StepResult:
        """Step every environment, as `EnvStepper.step`.

        Raises:
            EnvironmentFault: The environment raised, or its watchdog complains.
        """
        self._watchdog.enter("a step")
        try:
            with self._pace:
                return super().step(actions)
        except BROKEN as error:
            raise fault_of(error, "a step") from error
        finally:
            self._watchdog.leave(self.num_envs)


def fault_of(error: BaseException, doing: str) -> EnvironmentFault:
    """Return what an environment raised, with its traceback.

    Args:
        error: What it raised.
        doing: What it was to do, in words such as "a step".
    """
    what = printable(error_words(error))
    details = "".join(traceback.format_exception(error))
    return EnvironmentFault(f"The environment raised in {doing}: {what}", details)
