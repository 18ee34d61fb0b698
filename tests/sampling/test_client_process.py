"""The client as a process of its own: it plays, obeys, says goodbye, and is killed."""

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from gymnasium.spaces import Box, Discrete

import soulsgui
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.wire.connection import Address
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.heartbeat import Heartbeat
from soulsgui.wire.messages.server_config import ServerConfig
from soulsgui.wire.messages.session import Wish
from tests.faults.server import faulty_server
from tests.faults.waiting import LIMIT_S, until
from tests.training.nodes import running_node, small_settings

PROGRAM = """
import sys
from pathlib import Path
from soulsgui.sampling.client import run_client
from soulsgui.wire.connection import Address
sys.exit(run_client(Address.read(Path(sys.argv[1])), sys.argv[2], None, None))
"""

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts clients; what is still running at the end is killed."""
    started: list[subprocess.Popen[bytes]] = []

    def run(address: Address, name: str = "c") -> "subprocess.Popen[bytes]":
        address.write(tmp_path / "redis.json")
        root = str(Path(soulsgui.__file__).parents[1])
        with (tmp_path / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, str(tmp_path / "redis.json"), name],
                env=os.environ | {"PYTHONPATH": root, "OMP_NUM_THREADS": "1"},
                stderr=log,
            )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.wait()


def _beat(connection: redis.Redis, keys: Keys, name: str = "c") -> Heartbeat | None:
    data = connection.get(keys.beat(name))
    return Heartbeat.read(data if isinstance(data, bytes) else None)


def _wish(connection: redis.Redis, keys: Keys, state: str) -> None:
    """Wish a state, and wait until the client has answered."""
    wish = Wish.model_validate({"command_id": uuid.uuid4().hex, "state": state})
    connection.set(keys.wish("c"), wish.to_json())
    connection.publish(keys.wake_up("c"), wish.command_id)

    def answered() -> bool:
        beat = _beat(connection, keys)
        return beat is not None and beat.answered is not None and beat.answered.command_id == wish.command_id

    until(answered, f"the answer to {state}")


@pytest.mark.allow_warnings
def test_a_client_plays_pauses_goes_on_and_says_goodbye(
    redis_address: Address, redis_client: redis.Redis, keys: Keys, tmp_path: Path, start: Start
) -> None:
    with running_node(redis_address, tmp_path / "run", small_settings(env__num_envs=3)) as node:
        redis_client.hset(keys.clients, "c", "{}")
        process = start(redis_address)
        state = node.wait_for_updates(3)
        assert state.rejected == {}
        assert state.env_steps % (3 * 16) == 0  # exactly its share, round after round

        _wish(redis_client, keys, "pause")
        until(lambda: (beat := _beat(redis_client, keys)) and beat.phase == "paused", "it pauses")
        until(lambda: node.node.training.status.phase == "waiting", "the trainer does not wait for it")
        paused_at = node.node.agent.updates
        _wish(redis_client, keys, "run")
        node.wait_for_updates(paused_at + 2)

        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0
        assert time.monotonic() - began < 2
        beat = _beat(redis_client, keys)
        assert beat is not None
        assert (beat.leaving, beat.phase == "paused", beat.error) == (True, False, "")
        assert beat.env_id == "CartPole-v1"
        assert beat.env_steps >= node.node.training.env_steps
        assert redis_client.xlen(keys.episodes("c")) > 1
        until(lambda: node.node.attempt.intake.sessions.by_client == {}, "its session ends")


@pytest.mark.allow_warnings
def test_a_killed_client_is_taken_over_by_the_next_one_at_once(
    redis_address: Address, redis_client: redis.Redis, keys: Keys, tmp_path: Path, start: Start
) -> None:
    settings = small_settings(ppo__round_timeout=0.5)
    with running_node(redis_address, tmp_path / "run", settings) as node:
        redis_client.hset(keys.clients, "c", "{}")
        process = start(redis_address)
        node.wait_for_updates(2)
        process.kill()
        process.wait()
        beat = _beat(redis_client, keys)
        assert beat is not None
        assert not beat.leaving  # no goodbye
        updates = node.node.agent.updates
        following = start(redis_address)
        node.wait_for_updates(updates + 2)

        def newer_session() -> bool:
            newer = _beat(redis_client, keys)
            return newer is not None and newer.instance.pid == following.pid and newer.session > beat.session

        until(newer_session, "a session of the next client")
        _wish(redis_client, keys, "stop")
        assert following.wait(LIMIT_S) == 0


@pytest.mark.allow_warnings
def test_a_client_ends_when_asked_while_the_server_is_away(tmp_path: Path, start: Start) -> None:
    (tmp_path / "server").mkdir()
    with faulty_server(tmp_path / "server") as server:
        with running_node(server.address, tmp_path / "run") as node:
            node.connection.hset(node.keys.clients, "c", "{}")
            process = start(server.address)
            node.wait_for_updates(1)
        server.kill()
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"settings": {"env.num_envs": "lots"}}, "env.num_envs = 'lots': should be a whole number"),
        ({"settings": {"logging.level": "loud"}}, "logging.level = 'loud'"),
        ({"spaces": {"observation": 7, "action": []}}, "A description of spaces can't be read"),
        ({"policy": {"kind": ["mlp"]}}, "The server's policy is of a kind that is not known here"),
        ({"policy": {"kind": "mlp", "hidden": "lots"}}, "can't be"),
    ],
)
def test_nonsense_of_a_server_ends_a_client_with_a_sentence(
    redis_address: Address, redis_client: redis.Redis, keys: Keys, tmp_path: Path, told: Any, said: str
) -> None:
    spaces = SpacesSpec.from_env(Box(-1, 1, (4,)), Discrete(2)).to_json()
    config = ServerConfig(run_id="r", attempt=1, contract="c", spaces=spaces, policy={"kind": "mlp"})
    redis_client.set(keys.config, config.model_copy(update=told).to_json())
    redis_address.write(tmp_path / "redis.json")
    words = ["client", "--server-file", str(tmp_path / "redis.json"), "--name", "c"]
    done = subprocess.run(
        [sys.executable, "-m", "soulsgui", *words], capture_output=True, text=True, check=False, timeout=120
    )
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode in (1, 2)
    beat = _beat(redis_client, keys)
    assert beat is not None
    assert said in beat.error
