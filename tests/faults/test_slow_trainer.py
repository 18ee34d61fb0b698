"""A trainer that sleeps (R11) or is killed (R1): credits hold the clients back, nothing else dies.

And a memory that fills up all the same (C15): warned of, held, cut; the run goes on by itself.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from soulsgui.config.paths import RunFolder
from soulsgui.runner.server.memory_guard import memory_used
from soulsgui.wire.keys import Keys
from soulsgui.wire.manifest import NOTE
from tests.end_to_end.server import RunningServer, wait_for
from tests.faults.report import Report

LIMIT = 2**24
KEYS = Keys()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    made = RunningServer(tmp_path_factory.mktemp("server"), ("--idle", "--set", f"redis.max_memory={LIMIT}"))
    yield made
    made.close()


def _pids(server: RunningServer) -> dict[str, int | None]:
    return {service.name: service.pid for service in server.status().services}


def _trains(server: RunningServer, preset: str) -> None:
    """Let it train with a preset; a run that does so already goes on."""
    if (before := server.status().run.name) != preset:
        if before:
            server.api.command("run.stop")
        overrides = {
            "stop.mean_return": None, "ppo.round_timeout": 5.0, "seed": 1,
            "evaluation.every_updates": 0, "stop.judged_by": "training", "checkpoint.every_updates": 500,
        }  # fmt: skip
        server.start_run(preset=preset, name=preset, overrides=overrides)


@pytest.mark.parametrize(
    ("preset", "seconds"),
    [
        ("cartpole_dqn", 2.0),
        pytest.param("cartpole_dqn", 25.0, marks=pytest.mark.slow),
        pytest.param("cartpole_ppo", 25.0, marks=pytest.mark.slow),
    ],
)
def test_credits_hold_clients_back_while_the_trainer_sleeps(
    server: RunningServer, report: Report, preset: str, seconds: float
) -> None:
    _trains(server, preset)
    server.wait_updates(3)
    pids, connection = _pids(server), server.redis()
    trainer = pids["trainer"]
    assert trainer is not None
    most = 0
    os.kill(trainer, signal.SIGSTOP)
    try:
        report.injected(f"SIGSTOP of the trainer for {seconds:g} s ({preset}, {LIMIT >> 20} MB of memory)")
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            most = max(most, memory_used(connection.info("memory")))
            time.sleep(0.1)
        states = {"online", "waiting"}
        wait_for(lambda: {client.state for client in server.status().clients} <= states, "they are there")
        made = [client.env_steps for client in server.status().clients]
    finally:
        os.kill(trainer, signal.SIGCONT)
    woken = time.monotonic()
    connection.close()
    server.wait_updates(3)
    report.recovered(time.monotonic() - woken)
    after = server.status()
    report.lost(after.run.lost_chunks, f"chunks; at most {most >> 10} KB of memory were used")
    assert most < 0.7 * LIMIT
    assert _pids(server) == pids, "nothing died"
    assert after.run.lost_chunks == 0
    assert set(after.run.rejected) <= {"late"}
    wait_for(
        lambda: all(now.env_steps > then for now, then in zip(server.status().clients, made, strict=True)),
        "every client plays on",
    )


def test_a_preset_learns_at_its_replay_ratio_with_clients_that_could_play_faster(
    server: RunningServer,
) -> None:
    def told() -> list[float]:
        values: list[float] = server.api.command("history.query", {"metric": "replay_ratio"})["value"]
        return values

    _trains(server, "cartpole_dqn")
    rejected = server.status().run.rejected
    server.wait_updates(1000)
    wait_for(lambda: (server.status().run.mean_return or 0) >= 80, "it learns")
    wait_for(lambda: len(told()) >= 3, "rows")
    assert told()[-1] == pytest.approx(64, rel=0.1)
    assert server.status().run.rejected == rejected


def test_killed_clients_and_servers_cost_an_asynchronous_run_nothing(server: RunningServer) -> None:
    _trains(server, "cartpole_dqn")
    before = server.status().run
    for name in ("client-2", "redis"):
        server.kill(name)
        server.wait_updates(300)
    wait_for(lambda: server.client_state("client-2") == "online", "it plays again")
    after = server.status().run
    assert (after.attempt, after.lost_chunks, after.rejected) == (before.attempt, 0, before.rejected)


def test_a_killed_trainer_goes_on_from_its_checkpoint(server: RunningServer, report: Report) -> None:
    _trains(server, "cartpole_dqn")
    server.api.command("checkpoint.save")
    before = server.status().run
    killed = time.monotonic()
    server.kill("trainer")
    report.injected("SIGKILL of the trainer of an asynchronous run")
    wait_for(lambda: server.status().run.attempt == before.attempt + 1, "the next attempt")
    wait_for(lambda: server.status().run.updates > before.updates, "more updates than before")
    report.recovered(time.monotonic() - killed)
    wait_for(lambda: server.status().run.model_id > before.model_id, "weights of the next attempt")
    after = server.status()
    assert after.run.env_steps >= before.env_steps
    # Nobody is cut off for samples of weights that the new trainer does not know.
    assert set(after.run.rejected) <= {"late"}
    wait_for(lambda: {client.state for client in server.status().clients} == {"online"}, "all play")


def test_a_trainer_whose_newest_checkpoint_is_damaged_goes_on_from_the_one_before_and_says_so(
    server: RunningServer, report: Report
) -> None:
    _trains(server, "cartpole_dqn")
    run, trainer = RunFolder(Path(server.status().run.dir)), server.pid("trainer")
    assert trainer is not None
    wait_for(run.older[0].exists, "a second checkpoint")
    before, path = server.status().run, run.checkpoint / "agent.safetensors"

    def is_held() -> bool:
        """Stop the trainer, but not while it puts a newer checkpoint there: none is to take the place."""
        os.kill(trainer, signal.SIGSTOP)
        # One that waits for the disk stops when that is over.
        threads = [*Path(f"/proc/{trainer}/task").glob("*/status")]
        wait_for(lambda: all("State:\tT" in one.read_text() for one in threads), "all of its threads stop")
        if not (held := path.exists()):
            os.kill(trainer, signal.SIGCONT)
        return held

    wait_for(is_held, "it is stopped between two checkpoints")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    server.kill("trainer")
    report.injected("SIGKILL of the trainer, and a flipped bit in its newest checkpoint")
    wait_for(lambda: server.status().run.attempt == before.attempt + 1, "the next attempt")
    wait_for(lambda: server.status().run.updates > before.updates, "more updates than before")
    words = "The run continues from another checkpoint"
    wait_for(lambda: any(words in what and str(run.checkpoint) in what for what in _events(server)), words)
    wait_for(lambda: server.status().run.state == "running", "it trains again")
    notes = [note.read_text() for note in run.manual_saves.glob(f"*/{NOTE}")]
    assert sum("is damaged" in note for note in notes) == 1, "what is damaged is kept aside"


def _events(server: RunningServer) -> list[str]:
    return [event["what"] for event in server.api.command("history.events", {})["events"]]


def test_a_memory_that_fills_up_is_warned_of_freed_and_the_run_goes_on(
    server: RunningServer, report: Report
) -> None:
    _trains(server, "cartpole_dqn")
    connection, trainer = server.redis(), server.pid("trainer")
    assert trainer is not None
    connection.hset(KEYS.clients, "flood", "{}")

    def fill(part: float) -> None:
        while memory_used(connection.info("memory")) < part * LIMIT:
            connection.xadd(KEYS.chunks("flood"), {"c": b"x" * 2**15})

    wait_for(lambda: "flood" in [client.id for client in server.status().clients], "it is on the list")
    os.kill(trainer, signal.SIGSTOP)  # awake it would throw the garbage away as fast as it comes
    try:

        def is_warned_of() -> bool:
            fill(0.55)  # again, where one that took the sleeper's place has thrown it away
            return any("memory of Redis fills up" in what for what in _events(server))

        wait_for(is_warned_of, "the warning")
        fill(0.75)
        began = time.monotonic()
        wait_for(lambda: connection.xlen(KEYS.chunks("flood")) == 0, "the flood is taken off the server")
        report.injected("a flood of one client up to 75 % of the memory, with a trainer that sleeps")
        report.recovered(time.monotonic() - began)
        connection.set("souls:test", b"x" * 2**16)
    finally:
        with suppress(ProcessLookupError):
            os.kill(trainer, signal.SIGCONT)
    wait_for(lambda: any("space again" in what for what in _events(server)), "the all-clear")
    # It slept, so that the runner had to do it itself.
    assert any("What flood had sent was deleted" in what for what in _events(server))
    server.wait_updates(100)
    report.recovered(time.monotonic() - began)
    assert connection.get("souls:test")
    connection.close()
