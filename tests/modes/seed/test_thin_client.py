"""A client in a process that can't import torch plays pictures for a network that needs it."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import soulsgui
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.policies.specs import TorchPolicySpec
from soulsgui.sampling.inference_messages import ActionReply, Request, RequestReader, checksum
from soulsgui.wire.connection import Address
from tests.environments.toys import Camera
from tests.faults.waiting import LIMIT_S, until
from tests.modes.seed.serving import HandTrainer, grant_for
from tests.sampling.free_trainer import beat_of, settings

ROOT = str(Path(soulsgui.__file__).parents[1])
NETWORK = TorchPolicySpec("nowhere_at_all:Net", (12, 12), "uint8", 2, 0, (3,), "relu", False)
LENGTH = 3


@settings(env__id="tests.environments.toys:ToysCamera-v0", env__kwargs={"length": LENGTH})
@pytest.mark.processes
def test_a_client_without_torch_asks_for_actions(
    tmp_path: Path, redis_address: Address, trainer: HandTrainer
) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise ImportError('there is no torch here')")
    redis_address.write(tmp_path / "redis.json")
    trainer.spaces = SpacesSpec.from_env(Camera.observation_space, Camera.action_space)
    trainer.policy = NETWORK.to_json()
    trainer.begin_run("run-1")
    reader = RequestReader(trainer.spaces)
    keys, connection = trainer.keys, trainer.connection
    connection.set(keys.config, trainer.config.to_json())
    words = ["client", "--name", "c", "--inference", "server", "--server-file", str(tmp_path / "redis.json")]
    process = subprocess.Popen(
        [sys.executable, "-m", "soulsgui", *words],
        env=os.environ | {"PYTHONPATH": os.pathsep.join((str(tmp_path), ROOT))},
        stderr=(tmp_path / "log").open("wb"),
    )
    try:

        def session() -> str:
            beat = beat_of(connection, keys)
            return "" if beat is None else beat.session

        until(lambda: session() or process.poll() is not None, "its hello")
        assert process.poll() is None, (tmp_path / "log").read_text()
        connection.set(keys.grant("c"), grant_for(session()).to_json())

        def asked(number: int) -> Request:
            def came() -> Request | None:
                data = connection.lpop(keys.requests("c"))
                request = reader.checked([reader.read(data)])[0] if isinstance(data, bytes) else None
                return request if request is not None and request.number == number else None  # or it repeats

            return until(came, f"request {number}")

        request = asked(0)
        assert (request.outcome, request.obs.shape) == (None, (3, 12, 12))
        for number in range(1, 6):
            reply = ActionReply(request.unroll, request.number, 0, 7, 7, np.zeros(3, np.int64))
            connection.rpush(keys.replies("c"), reply.pack())
            request = asked(number)
            assert (request.obs == number % LENGTH).all()
            assert request.outcome is not None
            assert request.follows == checksum(reply.pack())
            assert request.outcome.result.terminated.tolist() == [number % LENGTH == 0] * 3
    finally:
        process.terminate()
        assert process.wait(LIMIT_S) == 0, (tmp_path / "log").read_text()
