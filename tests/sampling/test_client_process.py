"""The client as a process of its own: it plays, obeys server and owner, says goodbye, and is killed."""

import base64
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis

import soulsgui
from soulsgui.environments import imports
from soulsgui.errors import ClientRegistrationError, NotAgreedError, SoulsGuiError
from soulsgui.policies.specs import TorchPolicySpec
from soulsgui.sampling.client import ClientOptions, within_means
from soulsgui.system import why_not_confined, write_private
from soulsgui.wire.connection import Address
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.heartbeat import Heartbeat
from soulsgui.wire.messages.owner import Agreement, ClientReport, Rules
from soulsgui.wire.messages.server_config import LONGEST_EXECUTION, Execution, ServerConfig
from soulsgui.wire.messages.session import GamePicture, Wish
from tests.faults.server import faulty_server
from tests.faults.waiting import LIMIT_S, until
from tests.sampling.free_trainer import (
    FreeTrainer,
    OwnersFolder,
    PlayingClient,
    beat_of,
    wish_answered,
    wish_for,
)
from tests.sampling.odd_toys import LENGTHS
from tests.training.nodes import RunningNode, running_node, small_settings

ROOT = str(Path(soulsgui.__file__).parents[1])
ENVS = 2
NOWHERE = TorchPolicySpec("nowhere_at_all:Net", (2,), "float32", 2, 0, (3,), "relu", False)

Process = subprocess.Popen[bytes]
Start = Callable[[Address], Process]


def started_client(folder: Path, address: Address, *words: str) -> Process:
    address.write(folder / "redis.json")
    program = [sys.executable, "-m", "soulsgui", "client", "--name", "c"]
    with (folder / "client.log").open("ab") as log:
        return subprocess.Popen(
            [*program, "--server-file", str(folder / "redis.json"), *words],
            env=os.environ | {"PYTHONPATH": ROOT, "OMP_NUM_THREADS": "1"},
            stderr=log,
        )


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts clients; what is still running at the end is killed."""
    started: list[Process] = []

    def run(address: Address) -> Process:
        started.append(started_client(tmp_path, address))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.allow_warnings
def test_a_client_plays_pauses_and_leaves_also_without_a_server(tmp_path: Path, start: Start) -> None:
    (tmp_path / "server").mkdir()
    with faulty_server(tmp_path / "server") as server:
        address = server.address
        with running_node(address, tmp_path / "run", small_settings(env__num_envs=3)) as node:
            node.connection.hset(node.keys.clients, "c", "{}")
            process = start(address)
            state = node.wait_for_updates(3)
            assert state.rejected == {}
            assert state.env_steps % (3 * 16) == 0  # exactly its share, round after round
            wish_answered(node.connection, node.keys, "pause")
            until(lambda: _beat(node).phase == "paused", "it pauses")
            until(lambda: node.node.training.status.phase == "waiting", "the trainer does not wait for it")
            paused_at = node.node.agent.updates
            wish_answered(node.connection, node.keys, "run")
            node.wait_for_updates(paused_at + 2)
            process.send_signal(signal.SIGTERM)
            assert process.wait(LIMIT_S) == 0
            beat = _beat(node)
            assert (beat.leaving, beat.phase == "paused", beat.error) == (True, False, "")
            assert beat.env_id == "CartPole-v1"
            assert beat.env_steps >= node.node.training.env_steps
            assert node.connection.xlen(node.keys.episodes("c")) > 1
            until(lambda: node.node.attempt.intake.sessions.by_client == {}, "its session ends")

            process = start(address)
            until(lambda: (newer := _beat(node)).instance.pid == process.pid and newer.session, "a session")
            node.wait_for_updates(node.node.agent.updates + 1)
        server.kill()
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0


def _beat(node: RunningNode) -> Heartbeat:
    return beat_of(node.connection, node.keys)


def test_nonsense_of_a_server_ends_a_client_with_a_sentence(
    redis_address: Address, redis_client: redis.Redis, keys: Keys, tmp_path: Path, start: Start
) -> None:
    config = ServerConfig(run_id="r", attempt=1, contract="c", spaces={}, policy={})
    redis_client.set(keys.config, config.model_copy(update={"settings": {"env.num_envs": "lots"}}).to_json())
    assert start(redis_address).wait(LIMIT_S) in (1, 2)
    said = "env.num_envs = 'lots': should be a whole number"
    log = (tmp_path / "client.log").read_text()
    assert said in log
    assert "Traceback" not in log
    assert said in beat_of(redis_client, keys).error


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"settings": {"logging.level": "loud"}}, "logging.level = 'loud'"),
        ({"spaces": {"observation": 7, "action": []}}, "A description of spaces can't be read"),
        ({"policy": {"kind": ["mlp"]}}, "The server's policy is of a kind that is not known here"),
        ({"policy": {"kind": "mlp", "hidden": "lots"}}, "can't be"),
        ({"policy": NOWHERE.to_json()}, "There is no network “nowhere_at_all:Net”"),
    ],
)
def test_whatever_a_server_tells_badly_is_a_sentence(redis_address: Address, told: Any, said: str) -> None:
    trainer = FreeTrainer(redis_address)
    trainer.connection.set(trainer.keys.config, trainer.config.model_copy(update=told).to_json())
    client = PlayingClient(redis_address)
    client.join()
    trainer.close()
    assert isinstance(client.failure, SoulsGuiError)
    assert said in client.failure.message
    refused = [name for name, good in client.progress.checks.items() if not good]
    assert refused == [
        {"settings": "version", "spaces": "environment", "policy": "network"}[name] for name in told
    ]


def test_without_an_inference_server_nobody_asks_one(redis_address: Address, trainer: FreeTrainer) -> None:
    trainer.publish(1)
    client = PlayingClient(redis_address, options=ClientOptions(inference="server"))
    client.join()
    assert isinstance(client.failure, ClientRegistrationError)
    assert client.failure.message == "This run has no inference server."
    assert client.progress.env_id == "", "no environment was made for that"


CANARY = "from pathlib import Path\nPath({path!r}).touch()\n"
FOREIGN = {
    "environment": {"env.id": "canary_of_a_server:Game-v0"},
    "wrapper": {"env.wrappers": ["canary_of_a_server:Wrap"]},
    "hook": {"client.restart_hook": "canary_of_a_server:start"},
    "network": {"network.name": "canary_of_a_server:Net"},
    "arguments": {"env.kwargs": {"length": 7}},
    "number": {"env.num_envs": 64},
}


@pytest.fixture
def canary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file that is there once the module `canary_of_a_server` was imported."""
    monkeypatch.setattr(imports, "_agreed", None)  # a client restricts its whole process
    path = tmp_path / "canary"
    (tmp_path / "canary_of_a_server.py").write_text(CANARY.format(path=str(path)))
    monkeypatch.syspath_prepend(tmp_path)
    yield path
    sys.modules.pop("canary_of_a_server", None)


@pytest.mark.allow_warnings
def test_nothing_that_a_server_names_runs_before_the_owner_agreed_to_all_of_it(
    redis_address: Address, tmp_path: Path, canary: Path
) -> None:
    path, folder = tmp_path / "agreed.json", OwnersFolder(tmp_path / "owner")
    trainer = FreeTrainer(redis_address)
    client = PlayingClient(redis_address, folder, options=ClientOptions(agreement=path))
    sessions: list[str] = []

    def announce(number: int, **changed: Any) -> Execution:
        trainer.settings |= changed
        trainer.begin_run(f"run-{number}")
        trainer.publish(number)
        return Execution.of(trainer.config.settings)

    def until_asked_for(execution: Execution) -> None:
        until(lambda: client.progress.asks == execution or client.failure, "the owner is asked")
        assert client.failure is None
        assert (client.progress.env_id, trainer.sessions()) == ("", sessions), "nothing was made"

    def until_it_plays() -> None:
        until(lambda: len(trainer.sessions()) > len(sessions) or client.failure, "it plays")
        assert (client.failure, client.progress.asks, client.progress.error) == (None, None, "")
        sessions[:], client.progress.env_id = trainer.sessions(), ""

    try:
        wanted = announce(1)
        until_asked_for(wanted)
        folder.want("pause")
        until(lambda: client.progress.phase == "paused", "its owner pauses it")
        write_private(path, Agreement(digests=[wanted.digest]).to_json().encode())
        until(lambda: client.progress.asks is None, "it was agreed to")
        assert (client.progress.env_id, trainer.sessions()) == ("", []), "but it is paused"
        folder.want("run")
        until_it_plays()
        with pytest.raises(NotAgreedError, match="The owner of this computer has not agreed to"):
            imports.import_named("canary_of_a_server:Net")  # as a policy may name it later

        for number, (what, changed) in enumerate(FOREIGN.items(), 2):
            before = {key: trainer.config.settings.get(key) for key in changed}
            until_asked_for(announce(number, **changed))
            trainer.settings |= before
            assert not canary.exists(), what
        announce(10)
        until_it_plays()  # that was agreed to before

        asked = announce(11, **{"env.kwargs": {"length": "x" * LONGEST_EXECUTION}})
        assert asked.too_long
        client.join()
        assert isinstance(client.failure, NotAgreedError)
        assert "Nobody can agree to that" in client.failure.remedy
    finally:
        client.end()
        trainer.close()
    assert not canary.exists()


def test_whoever_is_trusted_runs_whatever_it_names(
    redis_address: Address, tmp_path: Path, canary: Path
) -> None:
    path = tmp_path / "agreed.json"
    write_private(path, Agreement(always=True).to_json().encode())
    trainer = FreeTrainer(redis_address, env__id="canary_of_a_server:Game-v0")
    trainer.publish(1)
    client = PlayingClient(redis_address, options=ClientOptions(agreement=path))
    client.join()
    trainer.close()
    assert canary.exists()
    assert "There is no environment" in client.failure.message


def test_what_a_server_may_take_is_what_a_computer_can_spare() -> None:
    names = ("client.max_memory", "client.buffer_bytes", "client.workers", "env.num_envs")
    least = dict(zip(names, (None, 2**20, 0, 1), strict=True)) | {"seed": 1}
    assert within_means(least, 2**33, 2) == least | {"client.max_memory": 2**32}
    greedy = dict(zip(names, (2**50, 2**50, 12, 4096), strict=True))
    assert list(within_means(greedy, 2**33, 2).values()) == [2**32, 2**30, 2, 128]
    small = dict(zip(names, (2**28, 2**20, 2, 128), strict=True))
    assert within_means(small, 2**33, 2) == small


class _OwnedClient:
    """The process of a client in client mode, and its owner."""

    def __init__(self, folder: Path, address: Address, *words: str) -> None:
        self.folder = OwnersFolder(folder)
        self.log = folder / "client.log"
        self.process = started_client(
            folder, address, "--num-envs", str(ENVS), "--state-dir", str(folder), *words
        )

    @property
    def report(self) -> ClientReport | None:
        return ClientReport.read(self.folder.state.read_bytes()) if self.folder.state.exists() else None

    def until_phase(self, phase: str) -> ClientReport:
        until(lambda: (report := self.report) and report.beat.phase == phase, f"{phase}: {self.log}")
        return self.report

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.mark.allow_warnings
def test_the_owner_pauses_at_once_and_after_the_episode_and_the_stricter_wish_wins(
    redis_address: Address, redis_client: redis.Redis, keys: Keys, tmp_path: Path
) -> None:
    redis_client.hset(keys.clients, "c", "{}")
    settings = small_settings(env__id="tests.sampling.odd_toys:ToysSlow-v0")
    with (
        running_node(redis_address, tmp_path / "run", settings) as node,
        closing(_OwnedClient(tmp_path / "client", redis_address)) as client,
    ):
        client.until_phase("sampling")
        node.wait_for_updates(1)
        beat = partial(_beat, node)
        server_wants = partial(wish_for, node.connection, node.keys)
        client.folder.want("pause_after_episode")
        finishing = client.until_phase("finishing")
        until(lambda: beat().phase in ("finishing", "paused"), "the server hears of it")
        paused = client.until_phase("paused")
        # The episodes they were in were ended and told of; what came after the wish was not recorded.
        assert finishing.beat.episodes < paused.beat.episodes <= finishing.beat.episodes + ENVS
        assert {one.length for one in paused.episodes} <= set(LENGTHS)
        assert paused.beat.env_steps == finishing.beat.env_steps
        until(lambda: node.node.training.status.phase == "waiting", "the trainer does not wait for it")

        server_wants("pause")
        until(lambda: (report := client.report) and report.wish and report.wish.state == "pause", "both do")
        client.folder.want("run")
        until(lambda: (now := beat()).answered is not None and now.phase == "paused", "the server does")
        steps = beat().env_steps
        server_wants("run")
        updates = node.node.agent.updates
        client.until_phase("sampling")
        node.wait_for_updates(updates + 1)
        until(lambda: beat().env_steps > steps, "steps")

        client.folder.want("pause")
        paused = client.until_phase("paused")
        assert paused.checks == dict.fromkeys(("configuration", "version", "environment", "network"), True)
        # Both end it together: nobody plays, so there is no episode to wait for.
        server_wants("finish")
        assert client.process.wait(LIMIT_S) == 0
        assert beat().env_steps == paused.beat.env_steps
        last = client.report
        assert (last.farewell, last.beat.leaving) == ("the server asked it to stop", True)


@pytest.mark.allow_warnings
@pytest.mark.skipif(why_not_confined() != "", reason=why_not_confined())
@pytest.mark.parametrize("workers", [0, 1])
def test_what_a_server_has_a_client_run_writes_in_one_folder_alone_unless_its_owner_allows_more(
    redis_address: Address, tmp_path: Path, workers: int
) -> None:
    path, folder, outside = tmp_path / "agreed.json", tmp_path / "client", tmp_path / "written"
    write_private(path, Agreement(always=True).to_json().encode())
    trainer = FreeTrainer(
        redis_address, env__id="tests.sampling.odd_toys:ToysWrites-v0", client__workers=workers
    )

    def played(run: str, writes: Path) -> _OwnedClient:
        trainer.settings["env.kwargs"] = {"path": str(writes)}
        trainer.begin_run(run)
        trainer.publish(1)
        return _OwnedClient(folder, redis_address, "--agreement", str(path))

    try:
        with closing(played("run-1", outside)) as client:
            assert client.process.wait(LIMIT_S) != 0
            assert f"Permission denied: '{outside}'" in client.log.read_text()
            assert not outside.exists()
        with closing(played("run-2", client.folder.writable / "written")) as client:
            trainer.hello()
            assert (client.folder.writable / "written").exists()
            threads = [*Path(f"/proc/{client.process.pid}/task").glob("*/status")]
            assert len(threads) > 1
            assert all("NoNewPrivs:\t1" in thread.read_text() for thread in threads)
        write_private(client.folder.rules, Rules(writes_anywhere=True).to_json().encode())
        with closing(played("run-3", outside)):
            until(outside.exists, "it writes elsewhere")
    finally:
        trainer.close()


@pytest.mark.allow_warnings
def test_a_server_looks_at_the_game_where_the_owner_allows_it_whatever_it_configures(
    redis_address: Address, tmp_path: Path
) -> None:
    path, folder = tmp_path / "agreed.json", tmp_path / "client"
    write_private(path, Agreement(always=True).to_json().encode())
    settings = small_settings(env__num_envs=ENVS, client__shown=True)
    with running_node(redis_address, tmp_path / "run", settings) as node:
        keys, connection = node.keys, node.connection
        connection.hset(keys.clients, "c", "{}")

        def looked(number: int) -> GamePicture | None:
            connection.set(keys.wish("c"), Wish(command_id="", look=number).to_json())
            connection.publish(keys.wake_up("c"), "")
            return GamePicture.read(connection.get(keys.picture("c")))

        with closing(_OwnedClient(folder, redis_address, "--agreement", str(path))) as client:
            client.until_phase("sampling")
            assert not client.report.beat.shown
        write_private(client.folder.rules, Rules(shows_game=True).to_json().encode())
        with closing(_OwnedClient(folder, redis_address, "--agreement", str(path))) as client:
            until(lambda: client.report.beat.shown and client.report.beat.env_steps, "it plays")
            found = until(lambda: (now := looked(7)) and now.look == 7 and now, "a picture")
            assert (found.width, found.height) == (200, 133)
            assert len(set(base64.b64decode(found.rgb))) > 2, "it is not empty"
            until(lambda: (now := looked(8)) and now.look == 8, "the next one")


@pytest.mark.allow_warnings
def test_it_obeys_its_owner_while_there_is_no_server_and_ends_without_its_runner(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    with faulty_server(tmp_path / "server") as server:
        address = server.address
    with closing(_OwnedClient(tmp_path / "client", address)) as client:
        joining = client.until_phase("joining")
        assert joining.checks == {}
        client.folder.want("pause")
        client.folder.runner.unlink()
        assert client.process.wait(LIMIT_S) == 0
        assert "the runner of client mode is gone" in client.log.read_text()
        assert client.report.beat.leaving
