"""The asynchronous way: from one command to a trained agent, and what happens when its parts are killed."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.server import RunningServer, last_json, soulsgui, wait_for

PRESET = "cartpole_dqn"


@pytest.mark.parametrize(
    ("goal", "seed"),
    [
        (80, 1),
        *(
            pytest.param(475, seed, marks=[pytest.mark.slow, pytest.mark.timeout(600)])
            for seed in range(1, 6)
        ),
    ],
)
def test_the_preset_learns_cartpole_and_wastes_nothing(tmp_path: Path, goal: int, seed: int) -> None:
    done = soulsgui(
        "serve", "--preset", PRESET, "--local-clients", "2", "--until-done", "--json",
        "--set", f"stop.mean_return={goal}", "--set", f"seed={seed}", folder=tmp_path, timeout_s=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    summary = last_json(done.stdout)
    assert (summary["algorithm"], summary["reached"]) == ("dqn", "mean_return")
    assert summary["mean_return"] >= goal
    # Clients played as fast as they could, and nothing of it was too old.
    assert summary["rejected"] == {}
    assert not any(summary["restarts"].values())
    assert (Path(summary["run_dir"]) / "checkpoint").is_dir()


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


def test_the_replay_ratio_is_kept_by_clients_that_could_play_faster(training: RunningServer) -> None:
    def told() -> list[float]:
        curve = training.api.command("history.query", {"metric": "replay_ratio", "points": 200_000})
        values: list[float] = curve["value"]
        return values

    training.wait_updates(1000)
    wait_for(lambda: len(told()) >= 3, "rows")
    assert told()[-1] == pytest.approx(64, rel=0.1)
    assert training.status().run.rejected == {}


def test_a_quicksave_holds_the_replay_memory_when_asked(training: RunningServer) -> None:
    saves = [soulsgui("quicksave", "--json", *words, folder=training.folder) for words in ((), ("--buffer",))]
    without, with_memory = (last_json(done.stdout) for done in saves)
    assert (without["memory"], with_memory["memory"]) == (False, True)
    assert with_memory["valid"]
    assert (Path(with_memory["path"]) / "memory.safetensors").is_file()


def test_killed_clients_and_servers_cost_nothing(training: RunningServer) -> None:
    before = training.status().run
    for name in ("client-2", "redis"):
        old = training.pid(name)
        _kill(old)
        wait_for(lambda: training.pid(name) not in (None, old), "a new process")  # noqa: B023
        training.wait_updates(300)
    wait_for(lambda: training.client_state("client-2") == "online", "it plays again")
    after = training.status().run
    assert (after.attempt, after.lost_chunks, after.rejected) == (before.attempt, 0, {})


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
