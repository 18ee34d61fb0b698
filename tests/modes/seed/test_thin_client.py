"""A client in a process that can't import torch plays for a network that needs it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import soulsgui
from soulsgui.policies.specs import TorchPolicySpec
from soulsgui.sampling.inference_messages import RequestReader
from soulsgui.wire.connection import Address
from tests.faults.waiting import until
from tests.modes.seed.serving import HandTrainer, grant_for
from tests.sampling.free_trainer import SPACES, beat_of

ROOT = str(Path(soulsgui.__file__).parents[1])
NETWORK = TorchPolicySpec("nowhere_at_all:Net", (2,), "float32", 2, 0, (3,), "relu", False)


@pytest.mark.processes
def test_a_client_without_torch_asks_for_actions(
    tmp_path: Path, redis_address: Address, trainer: HandTrainer
) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise ImportError('there is no torch here')")
    redis_address.write(tmp_path / "redis.json")
    trainer.config = trainer.config.model_copy(update={"policy": NETWORK.to_json()})
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
        asked = until(lambda: connection.lpop(keys.requests("c")), "its first request")
        assert isinstance(asked, bytes)
        reader = RequestReader(SPACES)
        (request,) = reader.checked([reader.read(asked)])
        assert (request.number, request.outcome, len(request.obs)) == (0, None, 3)
    finally:
        process.terminate()
        assert process.wait(30) == 0, (tmp_path / "log").read_text()
