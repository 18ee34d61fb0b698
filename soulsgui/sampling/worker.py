"""A process that steps some of a client's environments: it is asked through its standard input.

    client ─ {make} {reset} {step, actions} ─▶ worker
    client ◀─ {spaces} {obs, mask} {next_obs, reward …} or {refused} {fault} ─ worker

Each message is its length and its bytes (`wire.codec`). The worker ends with its standard input.
"""

import json
import os
import signal
import struct
import sys
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from soulsgui.environments.make import make_vector
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.errors import EnvironmentCheckError, EnvironmentFault
from soulsgui.process import setup_logging
from soulsgui.sampling.watchdog import Limits, Watchdog
from soulsgui.sampling.watched import WatchedStepper
from soulsgui.system import stop_signals
from soulsgui.wire.codec import pack, unpack

OBSERVATIONS = ("obs", "next_obs", "reset_obs")
"""Fields of the answers that are observations."""

_LENGTH = struct.Struct("<I")


def send(stream: BinaryIO, message: dict[str, Any]) -> None:
    """Write a message.

    Raises:
        OSError: The other side is gone.
    """
    data = pack(message)
    stream.write(_LENGTH.pack(len(data)))
    stream.write(data)
    stream.flush()


def receive(stream: BinaryIO) -> dict[str, Any] | None:
    """Wait for a message and return it, None when the other side is gone."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    data = stream.read(length)
    if len(data) < length:
        return None
    message: dict[str, Any] = unpack(data)
    return message


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
        if wanted is None:
            return 0
        return _serve(source, output, wanted)


def _serve(source: BinaryIO, output: BinaryIO, wanted: dict[str, Any]) -> int:
    def hung(fault: EnvironmentFault) -> None:
        try:
            send(output, {"fault": fault.message, "details": fault.details})
        finally:
            # Also where nobody hears it any more: the thread that would see that hangs.
            os._exit(1)

    # Memory and rate are the client's to look at: they are of all workers together.
    watchdog = Watchdog(Limits(wanted["hang_s"], max_memory=2**62), hung)
    watchdog.start()
    try:
        env_id, kwargs, wrappers = json.loads(wanted["env"])
        with watchdog.inside("being made"):
            vector = make_vector(env_id, kwargs, wrappers, wanted["num_envs"])
        try:
            spaces = SpacesSpec.from_env(vector.single_observation_space, vector.single_action_space)
            send(output, {"spaces": json.dumps(spaces.to_json())})
            _answer(source, output, WatchedStepper(vector, watchdog))
        finally:
            with watchdog.inside("being closed"):
                vector.close()
    except EnvironmentCheckError as error:
        send(output, {"refused": error.message, "remedy": error.remedy})
        return error.exit_code
    except EnvironmentFault as fault:
        send(output, {"fault": fault.message, "details": fault.details})
        return fault.exit_code
    finally:
        watchdog.close()
    return 0


def _answer(source: BinaryIO, output: BinaryIO, stepper: WatchedStepper) -> None:
    """Do what is asked until nobody asks any more.

    Raises:
        EnvironmentFault: An environment raised.
    """
    while (asked := receive(source)) is not None:
        if "actions" in asked:
            step = stepper.step(asked["actions"])._asdict()
            send(output, step | {name: _sendable(step[name]) for name in OBSERVATIONS if name in step})
        else:
            obs = stepper.reset(asked["seed"])
            send(output, {"obs": _sendable(obs), "mask": stepper.mask})


def _sendable(obs: NDArray[Any]) -> NDArray[Any]:
    """Return observations `[N, *shape]`; records of an image and numbers as rows of bytes."""
    return obs.view(np.uint8).reshape(len(obs), -1) if obs.dtype.names else obs
