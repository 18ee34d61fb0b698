"""A client's environments, spread over worker processes that step at the same time.

    client ─ {make} {reset} {step, actions} ─▶ worker
    client ◀─ {spaces} {obs, mask} {next_obs, reward …} or {refused} {fault} ─ worker

A worker is asked through its standard input and ends with it. Each message is its length and its bytes
(`wire.codec`).
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.environments.choices import Mask
from soulsgui.environments.make import WrapperEntry, make_vector
from soulsgui.environments.pictures import Picture
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.environments.step import StepResult
from soulsgui.errors import EnvironmentCheckError, EnvironmentFault, ProcessFault
from soulsgui.process import child_env, own_command, setup_logging
from soulsgui.sampling.watchdog import EnvironmentLimits, StepTimer, Watchdog, WatchedStepper
from soulsgui.system import kill_tree, stop_signals
from soulsgui.wire.codec import receive, send

_END_WITHIN_S = 3.0
_MASKS = ("next_mask", "reset_mask")


OBSERVATIONS = ("obs", "next_obs", "reset_obs")
"""Fields of the answers that are observations."""


class Worker:
    """One process that is to step some of the environments."""

    def __init__(self) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            own_command("worker"), stdin=pipe, stdout=pipe, env=os.environ | child_env()
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout

    def ask(self, message: dict[str, Any]) -> None:
        """Ask for something; `answer` waits for it."""
        try:
            send(self._to, message)
        except OSError as error:
            raise self._gone() from error

    def answer(self) -> dict[str, Any]:
        """Wait for what was asked for."""
        found = receive(self._from)
        if found is None:
            raise self._gone()
        if "fault" in found:
            raise EnvironmentFault(found["fault"], found["details"])
        if "refused" in found:
            raise EnvironmentCheckError(found["refused"], found["remedy"])
        return found

    def kill(self) -> None:
        """End the process and everything it started, at once; for who waits for it that is a fault."""
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

    def _gone(self) -> EnvironmentFault:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_WITHIN_S)
        code = self._process.returncode
        return EnvironmentFault(f"A worker process of the environment is gone (exit code {code}).")


class SpreadStepper:
    """Steps environments in several processes as if they were in one vector (`environments.step.Stepper`).

    `open` makes them; it can be killed before that is done. `mask` is known from the first reset on, and
    `timer` measures the steps of all environments together.
    """

    def __init__(
        self,
        env: tuple[str, Mapping[str, Any], Sequence[WrapperEntry]],
        num_envs: int,
        workers: int,
        watchdog: Watchdog,
        hang_s: float,
        info_keys: Sequence[str] = (),
    ) -> None:
        self.num_envs = num_envs
        self._info_keys = info_keys
        self.mask: Mask | None = None
        self._env = env
        self._hang_s = hang_s
        self._watchdog = watchdog
        self.timer = StepTimer()
        self._workers: list[Worker] = []
        shares = np.array_split(np.arange(num_envs), min(workers, num_envs))
        self._shares = [slice(int(share[0]), int(share[-1]) + 1) for share in shares]

    def open(self) -> None:
        """Start the processes and let them make the environments."""
        try:
            for share in self._shares:
                # One by one, and before it is asked: whatever fails, all those there are can be ended.
                worker = Worker()
                self._workers.append(worker)
                num_envs = share.stop - share.start
                env, keys = json.dumps(self._env), list(self._info_keys)
                worker.ask({"env": env, "num_envs": num_envs, "hang_s": self._hang_s, "info_keys": keys})
            found = [worker.answer()["spaces"] for worker in self._workers]
            self.spaces = SpacesSpec.from_json(json.loads(found[0]))
        except BaseException:
            self.kill()
            self.close()
            raise

    def reset(self, seed: int | None = None) -> NDArray[Any]:
        """Begin anew in every environment and return the observations `[N, *shape]`."""
        self._enter("a reset")
        try:
            for worker, share in zip(self._workers, self._shares, strict=True):
                worker.ask({"seed": None if seed is None else seed + share.start})
            parts = [worker.answer() for worker in self._workers]
            self.mask = self._masks([part["mask"] for part in parts])
            return self._joined(parts, "obs")
        finally:
            self._watchdog.leave()

    def shown(self) -> Picture | None:
        """Return what the first environment shows, as `WatchedStepper.shown`."""
        self._enter("rendering")
        try:
            self._workers[0].ask({"shown": True})
            found: Picture | None = self._workers[0].answer()["shown"]
            return found
        finally:
            self._watchdog.leave()

    def step(self, actions: NDArray[Any]) -> StepResult:
        """Step every environment."""
        self._enter("a step")
        try:
            with self.timer:
                for worker, share in zip(self._workers, self._shares, strict=True):
                    worker.ask({"actions": actions[share]})
                parts = [worker.answer() for worker in self._workers]
            next_mask, self.mask = (self._masks([part[name] for part in parts]) for name in _MASKS)
            columns = [name for name in StepResult._fields if name not in (*_MASKS, "info")]
            columns += ["info"] if self._info_keys else []
            result = StepResult(**{name: self._joined(parts, name) for name in columns})
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
        masks = np.ones((self.num_envs, sum(self.spaces.action.sizes)), np.bool_)
        for share, mask in zip(self._shares, told, strict=True):
            if mask is not None:
                masks[share] = mask
        return masks

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


def run_worker() -> int:
    """Serve until standard input ends; return the exit code."""
    setup_logging()
    # Its client stops it, when everything is sent: not the terminal, nor who stops the whole group.
    for number in stop_signals():
        signal.signal(number, signal.SIG_IGN)
    source = sys.stdin.buffer
    # Environments print what they like; the answers have standard output to themselves.
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as output:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        wanted = receive(source)
        return 0 if wanted is None else _serve(source, output, wanted)


def _serve(source: IO[bytes], output: IO[bytes], wanted: dict[str, Any]) -> int:
    def tell(fault: EnvironmentFault) -> None:
        send(output, {"fault": fault.message, "details": fault.details})

    def hung(fault: EnvironmentFault) -> None:
        try:
            tell(fault)
        finally:
            # Also where nobody hears it any more: the thread that would see that hangs.
            os._exit(1)

    # Memory and rate are the client's to look at: they are of all workers together.
    watchdog = Watchdog(EnvironmentLimits(wanted["hang_s"], max_memory=2**62), hung)
    watchdog.start()
    try:
        env_id, kwargs, wrappers = json.loads(wanted["env"])
        with watchdog.inside("being made"):
            vector = make_vector(env_id, kwargs, wrappers, wanted["num_envs"])
        try:
            spaces = SpacesSpec.from_env(vector.single_observation_space, vector.single_action_space)
            send(output, {"spaces": json.dumps(spaces.to_json())})
            _answer(source, output, WatchedStepper(vector, watchdog, wanted["info_keys"]))
        finally:
            with watchdog.inside("being closed"):
                vector.close()
    except EnvironmentCheckError as error:
        send(output, {"refused": error.message, "remedy": error.remedy})
        return error.exit_code
    except EnvironmentFault as fault:
        tell(fault)
        return fault.exit_code
    finally:
        watchdog.close()
    return 0


def _answer(source: IO[bytes], output: IO[bytes], stepper: WatchedStepper) -> None:
    """Answer requests until standard input ends."""
    while (asked := receive(source)) is not None:
        if "actions" in asked:
            step = stepper.step(asked["actions"])._asdict()
            send(output, step | {name: _sendable(step[name]) for name in OBSERVATIONS if name in step})
        elif "shown" in asked:
            send(output, {"shown": stepper.shown()})
        else:
            obs = stepper.reset(asked["seed"])
            send(output, {"obs": _sendable(obs), "mask": stepper.mask})


def _sendable(obs: NDArray[Any]) -> NDArray[Any]:
    """Return observations `[N, *shape]`; records of an image and numbers as rows of bytes."""
    return obs.view(np.uint8).reshape(len(obs), -1) if obs.dtype.names else obs
