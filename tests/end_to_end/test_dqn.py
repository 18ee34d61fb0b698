"""The asynchronous way: from one command to a trained agent, and what happens when its parts are killed."""

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
    for memory in (False, True):
        saved = training.api.command("checkpoint.save", {"buffer": memory})["checkpoint"]
        assert (saved["memory"], saved["valid"]) == (memory, True)
        assert (Path(saved["path"]) / "memory.safetensors").is_file() == memory


def test_killed_clients_and_servers_cost_nothing(training: RunningServer) -> None:
    before = training.status().run
    for name in ("client-2", "redis"):
        training.kill(name)
        training.wait_updates(300)
    wait_for(lambda: training.client_state("client-2") == "online", "it plays again")
    after = training.status().run
    assert (after.attempt, after.lost_chunks, after.rejected) == (before.attempt, 0, {})


def test_a_killed_trainer_goes_on_from_its_checkpoint(training: RunningServer) -> None:
    wait_for(lambda: training.status().run.checkpoint_env_steps, "a checkpoint")
    before = training.status().run
    training.kill("trainer")
    wait_for(lambda: training.status().run.attempt == before.attempt + 1, "the next attempt")
    wait_for(lambda: training.status().run.updates > before.updates, "more updates than before")
    after = training.status()
    assert after.run.model_id > before.model_id
    assert after.run.env_steps >= (before.checkpoint_env_steps or 0)
    # Nobody is cut off for samples of weights that the new trainer does not know.
    assert set(after.run.rejected) <= {"late"}
    for name in ("client-1", "client-2"):
        wait_for(lambda name=name: training.client_state(name) == "online", "it plays")  # type: ignore[misc]
