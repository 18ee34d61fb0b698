"""The asynchronous way: from one command to a trained agent, and what happens when its parts are killed."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.server import RunningServer, last_json, soulsgui, wait_for

PRESET = "cartpole_dqn"


def _serve(folder: Path, *words: str, timeout_s: float) -> dict[str, Any]:
    done = soulsgui(
        "serve", "--preset", PRESET, "--local-clients", "2", "--until-done", "--json", *words,
        folder=folder, timeout_s=timeout_s,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    summary = last_json(done.stdout)
    assert summary["algorithm"] == "dqn"
    # Clients played as fast as they could, and nothing of it was too old.
    assert summary["rejected"] == {}
    assert not any(summary["restarts"].values())
    assert (Path(summary["run_dir"]) / "checkpoint").is_dir()
    return summary


def test_the_preset_learns_cartpole_and_wastes_nothing(tmp_path: Path) -> None:
    summary = _serve(tmp_path, "--set", "stop.mean_return=80", timeout_s=150)
    assert summary["reached"] == "mean_return"
    assert summary["mean_return"] >= 80


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(1, 6))
def test_the_preset_solves_cartpole(tmp_path: Path, seed: int) -> None:
    summary = _serve(tmp_path, "--set", f"seed={seed}", timeout_s=500)
    assert summary["reached"] == "mean_return"
    assert summary["mean_return"] >= 475


def test_a_goal_of_steps_ends_the_run_when_they_are_trained_on(tmp_path: Path) -> None:
    summary = _serve(
        tmp_path, "--set", "stop.mean_return=null", "--set", "stop.env_steps=3000",
        "--set", "dqn.replay_ratio=16", "--set", "dqn.batch_size=64", timeout_s=90,
    )  # fmt: skip
    assert summary["reached"] == "env_steps"
    assert summary["env_steps"] >= 3000
    # What came in since learning began, after the first 1000 at the earliest, was drawn 16 times, 64 at once.
    trained_on = summary["updates"] * 64 / 16
    assert 0 < trained_on <= summary["env_steps"] - 1000 + 200


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server that trains with the preset and without a goal; every test leaves it training."""
    server = RunningServer(tmp_path_factory.mktemp("server"))
    try:
        server.start_run(preset=PRESET, overrides={"stop.mean_return": None, "checkpoint.every_updates": 200})
        yield server
    finally:
        server.close()


def _kill(pid: int | None) -> None:
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


def _curve(server: RunningServer, metric: str) -> list[float]:
    values: list[float] = server.api.command("history.query", {"metric": metric, "points": 200_000})["value"]
    return values


def test_the_replay_ratio_is_kept_by_clients_that_could_play_faster(training: RunningServer) -> None:
    training.wait_updates(1000)
    wait_for(lambda: len(_curve(training, "replay_ratio")) >= 3, "rows")
    assert _curve(training, "replay_ratio")[-1] == pytest.approx(64, rel=0.1)
    assert training.status().run.rejected == {}


def test_a_quicksave_holds_the_replay_memory_when_asked(training: RunningServer) -> None:
    saves = [soulsgui("quicksave", "--json", *words, folder=training.folder) for words in ((), ("--buffer",))]
    without, with_memory = (last_json(done.stdout) for done in saves)
    assert (without["memory"], with_memory["memory"]) == (False, True)
    assert with_memory["valid"]
    assert (Path(with_memory["path"]) / "memory.safetensors").is_file()


def test_a_killed_client_is_missed_by_nobody(training: RunningServer) -> None:
    old = training.pid("client-2")
    _kill(old)
    training.wait_updates(300)
    wait_for(lambda: training.pid("client-2") not in (None, old), "a new process")
    wait_for(lambda: training.client_state("client-2") == "online", "it plays again")
    training.wait_updates(300)
    assert training.status().run.rejected == {}


def test_a_killed_server_costs_nothing(training: RunningServer) -> None:
    before = training.status().run
    old = training.pid("redis")
    _kill(old)
    wait_for(lambda: training.pid("redis") not in (None, old), "the next server")
    wait_for(lambda: training.status().run.updates >= before.updates + 300, "training goes on")
    after = training.status().run
    assert after.attempt == before.attempt
    assert after.lost_chunks == 0


def test_a_killed_trainer_goes_on_from_its_checkpoint(training: RunningServer) -> None:
    wait_for(lambda: training.status().run.checkpoint_env_steps, "a checkpoint")
    before = training.status().run
    _kill(training.pid("trainer"))
    wait_for(lambda: training.status().run.attempt == before.attempt + 1, "the next attempt")
    wait_for(lambda: training.status().run.updates > before.updates, "more updates than before")
    after = training.status()
    assert after.run.model_id > before.model_id
    assert after.run.env_steps >= (before.checkpoint_env_steps or 0)
    # Nobody is cut off for samples of weights that the new trainer does not know.
    assert set(after.run.rejected) <= {"late"}
    wait_for(lambda: training.client_state("client-1") == "online", "it plays")
    wait_for(lambda: training.client_state("client-2") == "online", "it plays")
