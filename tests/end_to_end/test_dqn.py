"""The asynchronous way: a preset learns, and goes on when its parts are killed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.server import RunningServer, wait_for


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server that trains with the preset and without a goal; every test leaves it training."""
    server = RunningServer(tmp_path_factory.mktemp("server"))
    try:
        changed = {"stop.mean_return": None, "checkpoint.every_updates": 200, "seed": 1}
        server.start_run(preset="cartpole_dqn", overrides=changed)
        yield server
    finally:
        server.close()


def test_it_learns_at_the_replay_ratio_with_clients_that_could_play_faster(training: RunningServer) -> None:
    def told() -> list[float]:
        curve = training.api.command("history.query", {"metric": "replay_ratio", "points": 200_000})
        values: list[float] = curve["value"]
        return values

    training.wait_updates(1000)
    wait_for(lambda: (training.status().run.mean_return or 0) >= 80, "it learns")
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
