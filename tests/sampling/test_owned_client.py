"""The client of client mode as a process: what its owner wants, what the server wants, who took its name."""

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

import soulsgui
from soulsgui.system import process_identity
from soulsgui.wire.connection import Address
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.heartbeat import Heartbeat
from soulsgui.wire.messages.owner import ClientFolder, ClientReport, OwnerState, OwnerWish
from soulsgui.wire.messages.session import Wish
from tests.faults.server import faulty_server
from tests.faults.waiting import LIMIT_S, until
from tests.sampling.slow_toy import LENGTHS
from tests.training.nodes import RunningNode, running_node, small_settings

ROOT = Path(soulsgui.__file__).parents[1]
ENVS = 2

INTRUDER = """
import sys
from pathlib import Path
from soulsgui.wire.connection import Address, connect
from soulsgui.wire.beats import own_instance
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.server_config import ServerConfig
from soulsgui.wire.messages.session import HELLO_FIELD, SessionHello
address = Address.read(Path(sys.argv[1]))
keys, connection = Keys(address.prefix), connect(address)
config = ServerConfig.read(connection.get(keys.config))
process, run = own_instance(), config.run_id
hello = SessionHello(client="c", instance=process, run_id=run, contract=config.contract, num_envs=1)
connection.xadd(keys.chunks("c"), {HELLO_FIELD: hello.to_json()})
"""

pytestmark = pytest.mark.allow_warnings


class _Client:
    """A client's process, and its owner's side of the folder; this process is its runner."""

    def __init__(self, folder: Path, address: Address) -> None:
        self.folder = ClientFolder(folder)
        folder.mkdir()
        address.write(self.folder.server_address)
        self.folder.runner.write_text(json.dumps(process_identity(os.getpid())))
        places = ["--server-file", str(self.folder.server_address), "--state-dir", str(folder)]
        self.log = folder / "client.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "soulsgui", "client", "--name", "c", "--num-envs", str(ENVS), *places],
                env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
                stderr=log,
            )

    def want(self, state: OwnerState) -> None:
        aside = self.folder.root / "aside"
        aside.write_text(OwnerWish(state=state).to_json())
        aside.replace(self.folder.wish)

    @property
    def report(self) -> ClientReport | None:
        return ClientReport.read(self.folder.state.read_bytes()) if self.folder.state.exists() else None

    def until_phase(self, phase: str) -> ClientReport:
        until(lambda: (report := self.report) and report.beat.phase == phase, f"{phase}: {self.log}")
        report = self.report
        assert report is not None
        return report

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def node(
    redis_address: Address, redis_client: redis.Redis, keys: Keys, tmp_path: Path
) -> Iterator[RunningNode]:
    """A trainer for an environment whose steps take 20 ms."""
    redis_client.hset(keys.clients, "c", "{}")
    settings = small_settings(env__id="tests.sampling.slow_toy:ToysSlow-v0", ppo__round_timeout=2.0)
    with running_node(redis_address, tmp_path / "run", settings) as running:
        yield running


@pytest.fixture
def client(node: RunningNode, redis_address: Address, tmp_path: Path) -> Iterator[_Client]:
    """A client that has played its first round."""
    made = _Client(tmp_path / "client", redis_address)
    made.until_phase("sampling")
    node.wait_for_updates(1)
    yield made
    made.end()


def _beat(node: RunningNode) -> Heartbeat:
    data = node.connection.get(node.keys.beat("c"))
    beat = Heartbeat.read(data if isinstance(data, bytes) else None)
    assert beat is not None
    return beat


def _server_wants(node: RunningNode, state: str) -> Wish:
    wish = Wish.model_validate({"command_id": uuid.uuid4().hex, "state": state})
    node.connection.set(node.keys.wish("c"), wish.to_json())
    node.connection.publish(node.keys.wake_up("c"), wish.command_id)
    return wish


def test_the_owner_pauses_at_once_and_after_the_episode_and_the_stricter_wish_wins(
    node: RunningNode, client: _Client
) -> None:
    client.want("pause_after_episode")
    finishing = client.until_phase("finishing")
    until(lambda: _beat(node).phase in ("finishing", "paused"), "the server hears of it")
    paused = client.until_phase("paused")
    # The episodes they were in were ended and told of; what came after the wish was not recorded.
    assert finishing.beat.episodes < paused.beat.episodes <= finishing.beat.episodes + ENVS
    assert {one.length for one in paused.episodes} <= set(LENGTHS)
    assert paused.beat.env_steps == finishing.beat.env_steps
    until(lambda: node.node.training.status.phase == "waiting", "the trainer does not wait for it")

    _server_wants(node, "pause")
    until(lambda: (report := client.report) and report.wish and report.wish.state == "pause", "both want it")
    client.want("run")
    until(
        lambda: (beat := _beat(node)).answered is not None and beat.phase == "paused", "the server still does"
    )
    steps = _beat(node).env_steps
    _server_wants(node, "run")
    updates = node.node.agent.updates
    client.until_phase("sampling")
    node.wait_for_updates(updates + 1)
    until(lambda: _beat(node).env_steps > steps, "steps")

    client.want("pause")
    paused = client.until_phase("paused")
    assert paused.checks == dict.fromkeys(("configuration", "version", "environment", "network"), True)
    steps = _beat(node).env_steps
    # Both end it together: nobody plays, so there is no episode to wait for.
    _server_wants(node, "finish")
    assert client.process.wait(LIMIT_S) == 0
    assert _beat(node).env_steps == steps
    last = client.report
    assert last is not None
    assert (last.farewell, last.beat.leaving) == ("the server asked it to stop", True)


def test_the_servers_finish_ends_the_episodes_first_and_then_the_process(
    node: RunningNode, client: _Client
) -> None:
    wish = _server_wants(node, "finish")
    before = client.until_phase("finishing")
    assert client.process.wait(LIMIT_S) == 0
    after, beat = client.report, _beat(node)
    assert after is not None
    assert before.beat.episodes < after.beat.episodes <= before.beat.episodes + ENVS
    assert {one.length for one in after.episodes} <= set(LENGTHS)
    assert after.beat.env_steps == before.beat.env_steps
    assert after.farewell == "the server asked it to stop"
    assert (beat.leaving, beat.episodes) == (True, after.beat.episodes)
    assert beat.answered is not None
    assert beat.answered.command_id == wish.command_id
    # Hello and every episode: also the last ones reached the server.
    assert node.connection.xlen(node.keys.episodes("c")) == after.beat.episodes + 1


def test_garbage_in_its_stream_costs_a_session_a_takeover_the_process(
    node: RunningNode, client: _Client
) -> None:
    first = _beat(node).session
    node.connection.xadd(node.keys.chunks("c"), {"c": b"\x00garbage"})
    until(lambda: _beat(node).session > first, "a new session")
    node.wait_for_updates(node.node.agent.updates + 1)
    assert client.process.poll() is None

    subprocess.run(
        [sys.executable, "-c", INTRUDER, str(client.folder.server_address)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=True,
    )
    assert client.process.wait(LIMIT_S) == 1
    assert "Another process took over the name c." in client.log.read_text()
    report = client.report
    assert report is not None
    assert "took over" in report.beat.error
    hellos = [fields for _, fields in node.connection.xrange(node.keys.chunks("c")) if b"hello" in fields]
    assert len(hellos) <= 1, "after the other's it said none"


def test_it_obeys_its_owner_while_there_is_no_server_and_ends_without_its_runner(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    with faulty_server(tmp_path / "server") as server:
        address = server.address
    client = _Client(tmp_path / "client", address)
    try:
        joining = client.until_phase("joining")
        assert joining.checks == {}
        client.want("pause")
        client.folder.runner.unlink()
        began = time.monotonic()
        assert client.process.wait(LIMIT_S) == 0
        assert time.monotonic() - began < 8
        assert "the runner of client mode is gone" in client.log.read_text()
        report = client.report
        assert report is not None
        assert report.beat.leaving
    finally:
        client.end()


def test_pausing_works_while_the_server_is_away(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    with faulty_server(tmp_path / "server", keeps_data=True) as server:
        settings = small_settings(env__id="tests.sampling.slow_toy:ToysSlow-v0")
        with running_node(server.address, tmp_path / "run", settings) as node:
            node.connection.hset(node.keys.clients, "c", "{}")
            client = _Client(tmp_path / "client", server.address)
            try:
                client.until_phase("sampling")
                node.wait_for_updates(1)
                server.kill()
                client.want("pause")
                paused = client.until_phase("paused")
                server.start()
                until(lambda: _beat(node).phase == "paused", "the server, back, hears of it")
                assert _beat(node).env_steps == paused.beat.env_steps
                updates = node.node.agent.updates
                client.want("run")
                node.wait_for_updates(updates + 1)
            finally:
                client.end()
