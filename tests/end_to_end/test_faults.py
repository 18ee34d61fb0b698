"""What happens to a training server when its parts are killed or lied to."""

import json
import pickle
import random
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import psutil
import pytest

from soulsgui.runner.services.outcome import RestartLimits
from soulsgui.system import free_port
from soulsgui.wire.api_client import CommandFailedError
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.metrics import STREAM_LENGTH
from soulsgui.wire.messages.session import CHUNK_FIELD
from tests.end_to_end.server import UNHURRIED, RunningServer, soulsgui_here, wait_for
from tests.faults.report import Report
from tests.faults.waiting import LIMIT_S
from tests.wire.chunks import Canary

KEYS = Keys()
STEPS_PER_ROUND = UNHURRIED["ppo.n_steps"] * 4 * 2
"""Of 2 clients with 4 environments each."""


@pytest.fixture(scope="module")
def exporter_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory, exporter_port: int) -> Iterator[RunningServer]:
    """A server with all sinks that trains CartPole without a goal, with two local clients.

    Every test leaves it training.
    """
    exporter = "--set", "exporter.enabled=true", "--set", f"exporter.port={exporter_port}"
    with closing(RunningServer(tmp_path_factory.mktemp("server"), ("--idle", *exporter))) as server:
        overrides = {"checkpoint.every_updates": 2, "telemetry.tensorboard": True}
        overrides["ppo.round_timeout"] = LIMIT_S  # nobody is late where a busy machine starts Redis anew
        server.start_run(overrides={**UNHURRIED, **overrides})
        yield server


def _rows(server: RunningServer) -> dict[str, list[int]]:
    told: dict[str, list[int]] = server.api.command("history.query", {"metric": "return", "points": 200_000})
    return told


def _growth_per_h(rows: list[tuple[float, float]]) -> float:
    """Return the upper 95 % bound of the slope of a memory, as a part of that memory in an hour."""
    seconds, used = np.array(rows[len(rows) // 3 :]).T  # what is loaded and filled at first is no growth
    (slope, _), covariance = np.polyfit(seconds, used, 1, cov=True)
    return float(3600 * (slope + 1.96 * covariance[0, 0] ** 0.5) / used.mean())


SOAKS = [(5.0, 100.0), pytest.param(1800.0, 0.02, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])]


@pytest.mark.parametrize(("seconds", "most_per_h"), SOAKS)
def test_memory_descriptors_and_streams_do_not_grow_while_a_run_goes_on(
    training: RunningServer, exporter_port: int, report: Report, seconds: float, most_per_h: float
) -> None:
    """Of 1,000 steps a second, more than ten times what a game gives."""
    # What a process loads at its start is no growth.
    wait_for(lambda: {one.state for one in training.status().services} == {"running"}, "all have begun")
    training.wait_updates(3)
    pids = {one.name: one.pid for one in training.status().services if one.pid is not None}
    assert {"tensorboard", "exporter"} <= pids.keys()
    processes = {name: psutil.Process(pid) for name, pid in pids.items() | {("runner", training.process.pid)}}
    memory: dict[str, list[tuple[float, float]]] = {name: [] for name in processes}
    descriptors: dict[str, list[int]] = {name: [] for name in processes}
    begun = time.monotonic()
    while (passed := time.monotonic() - begun) < seconds or len(descriptors["runner"]) < 20:
        for name, process in processes.items():
            memory[name].append((passed, process.memory_info().rss))
            count = process.num_handles if sys.platform == "win32" else process.num_fds
            descriptors[name].append(count())
        with urlopen(f"http://127.0.0.1:{exporter_port}/metrics", timeout=LIMIT_S) as told:
            assert b"soulsgui_up 1" in told.read()
        time.sleep(seconds / 200)
    report.injected(f"{seconds:g} s of training")
    with closing(training.redis()) as server:
        lengths = {key: server.xlen(key) for key in server.scan_iter(_type="stream")}
    assert lengths
    assert {key: length for key, length in lengths.items() if length > 1.2 * STREAM_LENGTH} == {}
    # Redis grows until its streams have their lengths.
    growth = {name: _growth_per_h(rows) for name, rows in memory.items() if name != "redis"}
    assert {name: part for name, part in growth.items() if part > most_per_h} == {}
    more = {
        name: max(seen[len(seen) // 2 :]) - max(seen[: len(seen) // 2]) for name, seen in descriptors.items()
    }
    assert {name: count for name, count in more.items() if count > 5} == {}


KILLS = [2, pytest.param(20, marks=[pytest.mark.slow, pytest.mark.timeout(900)])]


@pytest.mark.parametrize("kills", KILLS)
def test_what_a_killed_server_had_accepted_is_trained_on(
    training: RunningServer, report: Report, kills: int
) -> None:
    """The first one: nobody but the server's own clients has played yet, so that rounds can be counted."""
    training.wait_updates(3)
    before, limits, rng = training.status().run, RestartLimits(), random.Random(3)
    for number in range(kills):
        if number and number % (limits.max_failures - 1) == 0:
            time.sleep(limits.healthy_s + 2)  # more in a row, and the runner rightly gives it up
        time.sleep(rng.uniform(0, 1.0))  # a kill comes at any moment
        report.injected("SIGKILL of Redis in mid-run")
        training.kill("redis")
        wait_for(lambda: training.status().server.reachable, "redis")
        back = time.monotonic()
        training.wait_updates(1)
        seconds = time.monotonic() - back
        report.recovered(seconds)
        assert kills == 2 or seconds <= 5.0  # beside other tests the clock says nothing
    training.wait_updates(3)
    after = training.status().run
    report.lost(after.lost_chunks, "chunks by their numbers")
    assert after.attempt == before.attempt, "the trainer went through it"
    assert after.lost_chunks == 0
    # Nothing came twice, and no round was trained on without a step that one of its members had made.
    assert after.rejected == {}
    rounds, odd = divmod(after.env_steps, STEPS_PER_ROUND)
    assert odd == 0
    assert rounds in (after.updates, after.updates + 1), "the steps of an update are told before it"
    restarts = {service.name: service.restarts for service in training.status().services}
    assert restarts == dict.fromkeys(restarts, 0) | {"redis": restarts["redis"]}


def test_a_killed_trainer_is_restarted_and_the_curve_goes_on(training: RunningServer, report: Report) -> None:
    training.wait_updates(3)
    before = training.status().run
    killed = time.monotonic()
    training.kill("trainer")
    report.injected("SIGKILL of the trainer")
    wait_for(lambda: training.status().run.attempt == before.attempt + 1, "the next attempt")
    training.wait_updates(2)
    report.recovered(time.monotonic() - killed)
    after = training.status()
    assert after.run.model_id > before.model_id
    assert before.checkpoint_env_steps is not None
    lost = "at most what came after the last checkpoint is lost"  # a slow disk saves later than it is to
    assert after.run.env_steps >= before.checkpoint_env_steps, lost
    trainer = next(service for service in after.services if service.name == "trainer")
    assert trainer.restarts >= 1
    assert "SIGKILL" in trainer.outcome
    history = _rows(training)
    assert history["row"] == list(range(history["row"][0], history["row"][0] + len(history["row"])))
    steps = [
        step for step, gone in zip(history["env_steps"], history["overwritten"], strict=True) if not gone
    ]
    assert steps == sorted(steps)


def test_a_client_that_sends_garbage_is_cut_off_and_plays_on_by_itself_once_it_is_released(
    training: RunningServer, tmp_path: Path, report: Report
) -> None:
    canary = Canary(tmp_path / "canary")
    process = training.pid("client-1")
    with closing(training.redis()) as connection:
        pipeline = connection.pipeline(transaction=True)  # nothing good comes in between
        for payload in [pickle.dumps(canary), *[b"garbage"] * 60]:
            pipeline.xadd(KEYS.chunks("client-1"), {CHUNK_FIELD: payload})
        pipeline.execute()
    report.injected("a pickle and sixty chunks of garbage among the good ones of a client")
    wait_for(lambda: training.client_state("client-1") == "quarantined", "it is cut off")
    assert not canary.path.exists()
    training.wait_updates(2)  # of the other client alone

    rejects = soulsgui_here("clients", "rejects", "client-1", "--json", folder=training.folder)
    newest = json.loads(rejects.stdout)[-1]
    assert (newest["client"], newest["reason"], newest["size"]) == ("client-1", "unreadable", 7)
    assert bytes.fromhex(newest["head"]) == b"garbage"

    training.api.command("clients.release", {"client": "client-1"})
    wait_for(lambda: training.client_state("client-1") == "online", "it plays again")

    def steps() -> int:
        return next(client.env_steps for client in training.status().clients if client.id == "client-1")

    before = steps()
    wait_for(lambda: steps() > before, "it makes steps")
    assert training.pid("client-1") == process
    with pytest.raises(CommandFailedError, match="only a client that was cut off"):
        training.api.command("clients.release", {"client": "client-1"})
    staleness = training.status().run.staleness
    assert staleness is not None
    assert staleness.accepted[0] > 0  # synchronous: nothing older is accepted
    assert sum(staleness.accepted[1:]) == 0


def test_a_killed_client_plays_again_and_a_killed_telemetry_goes_on_without_gap_or_double(
    training: RunningServer,
) -> None:
    episodes = training.status().run.episodes
    for name in ("client-2", "telemetry"):
        training.kill(name)
    wait_for(lambda: training.client_state("client-2") == "online", "it plays")
    training.wait_updates(3)
    wait_for(lambda: training.status().run.episodes > episodes, "episodes")
    seen = len(_rows(training)["row"])
    wait_for(lambda: len(_rows(training)["row"]) > seen, "new rows in the store")
    found = _rows(training)["row"]
    assert found == list(range(1, len(found) + 1))


def test_quicksave_pause_stop_and_resume_do_what_they_say_and_clients_follow_from_run_to_run(
    training: RunningServer,
) -> None:
    guest = training.spawn("client", "--name", "traveller")
    saved = training.api.command("checkpoint.save", {"note": "before lunch"})["checkpoint"]
    assert saved["kind"] == "manual"
    assert saved["valid"]
    assert saved["note"] == "before lunch"
    training.api.command("clients.pause", {"client": "client-2"})
    wait_for(lambda: training.client_state("client-2") == "paused", "paused")
    training.wait_updates(2)
    training.api.command("clients.resume", {"client": "client-2"})
    wait_for(lambda: training.client_state("client-2") == "online", "playing again")
    wait_for(lambda: training.client_state("traveller") == "online", "the guest plays for the first run")
    training.api.command("run.stop")
    assert training.status().run.state == "stopped"
    kinds = {service.name: service.state for service in training.status().services}
    assert {name: state for name, state in kinds.items() if state != "stopped"} == {
        "redis": "running",
        "exporter": "running",
    }

    first = training.status().run
    late = training.spawn("client", "--name", "latecomer")  # it comes while there is no run
    wait_for(lambda: training.client_state("latecomer") == "waiting", "it waits for a run")
    training.start_run(overrides={**UNHURRIED, "clients.local": 0})
    for name in ("traveller", "latecomer"):
        wait_for(lambda who=name: training.client_state(who) == "online", f"{name} plays for the second run")  # type: ignore[misc]
    training.api.command("run.stop")
    late.terminate()
    assert late.wait(LIMIT_S) == 0
    training.begin("run.resume", run=first.id)
    training.wait_updates(2)
    wait_for(lambda: training.client_state("traveller") == "online", "it plays for the first run again")
    guest.terminate()
    assert guest.wait(LIMIT_S) == 0
    after = training.status().run
    assert (after.id, after.attempt) == (first.id, first.attempt + 1)
    assert after.updates > first.updates


def test_shut_down_leaves_nothing(training: RunningServer) -> None:
    """The last one: it ends the server of all."""
    below = psutil.Process(training.process.pid).children(recursive=True)
    assert len(below) >= 5
    training.api.command("server.shutdown", {})
    assert training.process.wait(LIMIT_S) == 0
    _, left = psutil.wait_procs(below, timeout=LIMIT_S)
    assert left == []
