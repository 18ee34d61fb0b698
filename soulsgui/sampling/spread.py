"""A client's environments, spread over processes of their own that step at the same time."""

import contextlib
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from soulsgui.environments.make import WrapperEntry
from soulsgui.environments.masks import Mask
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.environments.step import StepResult
from soulsgui.errors import EnvironmentCheckError, EnvironmentFault, ProcessFault
from soulsgui.process import child_env, own_command
from soulsgui.sampling.pace import Pace
from soulsgui.sampling.watchdog import Watchdog
from soulsgui.sampling.worker import OBSERVATIONS, receive, send
from soulsgui.system import kill_tree

_END_WITHIN_S = 3.0
_MASKS = ("next_mask", "reset_mask")


class Worker:
    """One process that is to step some of the environments.

    Raises:
        OSError: It can't be started.
    """

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            own_command("worker"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | child_env(),
        )

    def make(
        self, env: tuple[str, Mapping[str, Any], Sequence[WrapperEntry]], num_envs: int, hang_s: float
    ) -> None:
        """Ask for its environments to be made, before anything else.

        Args:
            env: Id, arguments and wrappers of the environment.
            num_envs: How many it steps.
            hang_s: Longest time they may take for anything, seconds.

        Raises:
            EnvironmentFault: The process is gone.
        """
        self.ask({"env": json.dumps(env), "num_envs": num_envs, "hang_s": hang_s})

    def ask(self, message: dict[str, Any]) -> None:
        """Ask for something; `answer` waits for it.

        Raises:
            EnvironmentFault: The process is gone.
        """
        try:
            send(self._to, message)
        except OSError as error:
            raise self._gone() from error

    def answer(self) -> dict[str, Any]:
        """Wait for what was asked for.

        Raises:
            EnvironmentCheckError: The environment can't be made.
            EnvironmentFault: It raised, hangs, or the process is gone.
        """
        found = receive(self._from)
        if found is None:
            raise self._gone()
        if "fault" in found:
            raise EnvironmentFault(found["fault"], found["details"])
        if "refused" in found:
            raise EnvironmentCheckError(found["refused"], found["remedy"])
        return found

    def kill(self) -> None:
        """End the process and everything it started, at once; whoever waits for it hears of that."""
        kill_tree(self._process.pid)

    def close(self) -> None:
        """Let the process close its environments and end."""
        with contextlib.suppress(OSError):
            self._to.close()

    def join(self) -> None:
        """Wait for its end, not for long."""
        try:
            self._process.wait(_END_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.kill()
            self._process.wait()
        self._from.close()

    @property
    def _to(self) -> BinaryIO:
        assert self._process.stdin is not None
        return self._process.stdin  # type: ignore[return-value]

    @property
    def _from(self) -> BinaryIO:
        assert self._process.stdout is not None
        return self._process.stdout  # type: ignore[return-value]

    def _gone(self) -> EnvironmentFault:
        try:
            code: int | None = self._process.wait(_END_WITHIN_S)
        except subprocess.TimeoutExpired:
            code = None
        return EnvironmentFault(f"A worker process of the environment is gone (exit code {code}).")


class SpreadStepper:
    """Steps environments in several processes as if they were in one vector (`environments.step.Stepper`).

    They are there once it is opened; until then it can be killed already.

    Args:
        env: Id, arguments and wrappers of the environment.
        num_envs: Environments in all.
        workers: Processes; no more than there are environments.
        watchdog: Is told when they are busy.
        hang_s: Longest time they may take for anything, seconds.

    Attributes:
        num_envs: Environments in all.
        spaces: What one of them shows and takes, once it is open; the first reset tells whether there are
            masks.
        mask: Valid actions `[N, A]` at what is to be acted on next, from the first reset on; None where no
            environment tells any.
    """

    def __init__(
        self,
        env: tuple[str, Mapping[str, Any], Sequence[WrapperEntry]],
        num_envs: int,
        workers: int,
        watchdog: Watchdog,
        hang_s: float,
    ) -> None:
        self.num_envs = num_envs
        self.mask: Mask | None = None
        self._env = env
        self._hang_s = hang_s
        self._watchdog = watchdog
        self._pace = Pace()
        self._workers: list[Worker] = []
        shares = np.array_split(np.arange(num_envs), min(workers, num_envs))
        self._shares = [slice(int(share[0]), int(share[-1]) + 1) for share in shares]

    def open(self) -> None:
        """Start the processes and let them make the environments.

        Raises:
            EnvironmentCheckError: The environment can't be made.
            EnvironmentFault: A process ended meanwhile, or the environment hangs.
            OSError: A process can't be started.
        """
        try:
            for share in self._shares:
                # One by one, and before it is asked: whatever fails, all those there are can be ended.
                worker = Worker()
                self._workers.append(worker)
                worker.make(self._env, share.stop - share.start, self._hang_s)
            found = [worker.answer()["spaces"] for worker in self._workers]
            self.spaces = SpacesSpec.from_json(json.loads(found[0]))
        except BaseException:
            self.kill()
            self.close()
            raise

    @property
    def step_s(self) -> float:
        """Recent mean time of a step of all of them, seconds."""
        return self._pace.step_s

    def reset(self, seed: int | None = None) -> NDArray[Any]:
        """Begin anew in every environment and return the observations `[N, *shape]`.

        Raises:
            EnvironmentFault: An environment failed.
        """
        self._enter("a reset")
        try:
            for worker, share in zip(self._workers, self._shares, strict=True):
                worker.ask({"seed": None if seed is None else seed + share.start})
            parts = [worker.answer() for worker in self._workers]
            self.mask = self._masks([part["mask"] for part in parts])
            return self._joined(parts, "obs")
        finally:
            self._watchdog.leave()

    def step(self, actions: NDArray[Any]) -> StepResult:
        """Step every environment.

        Args:
            actions: `[N, ...]`, as the space of one says.

        Raises:
            EnvironmentFault: An environment failed, or its watchdog complains.
        """
        self._enter("a step")
        try:
            with self._pace:
                for worker, share in zip(self._workers, self._shares, strict=True):
                    worker.ask({"actions": actions[share]})
                parts = [worker.answer() for worker in self._workers]
            next_mask, self.mask = (self._masks([part[name] for part in parts]) for name in _MASKS)
            columns = (name for name in StepResult._fields if name not in _MASKS)
            result = StepResult(*(self._joined(parts, name) for name in columns))
            return result._replace(next_mask=next_mask, reset_mask=self.mask)
        finally:
            self._watchdog.leave(self.num_envs)

    def _joined(self, parts: list[dict[str, Any]], name: str) -> NDArray[Any]:
        """Return a column of all workers; records of images and numbers came as their bytes."""
        column = np.concatenate([part[name] for part in parts])
        if name in OBSERVATIONS and self.spaces.observation.shape == () and column.ndim > 1:
            return column.view(self.spaces.observation.dtype)[:, 0]
        return column

    def _masks(self, told: list[Mask | None]) -> Mask | None:
        """Return the masks of all environments; where a worker tells none, all actions are valid."""
        if all(mask is None for mask in told):
            return None
        actions = sum(self.spaces.action.sizes)
        return np.concatenate(
            [
                np.ones((share.stop - share.start, actions), np.bool_) if mask is None else mask
                for share, mask in zip(self._shares, told, strict=True)
            ]
        )

    def kill(self) -> None:
        """End all processes at once; may be called in another thread."""
        for worker in tuple(self._workers):
            worker.kill()

    def close(self) -> None:
        """Let the processes close their environments and end."""
        for worker in self._workers:
            worker.close()
        for worker in self._workers:
            worker.join()
        self._workers.clear()

    def _enter(self, doing: str) -> None:
        try:
            self._watchdog.enter(doing)
        except ProcessFault as fault:
            # What is too large are the workers, which are ended with the environment.
            raise EnvironmentFault(fault.message, fault.details) from fault
