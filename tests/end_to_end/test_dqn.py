"""The asynchronous way, from one command to a trained agent; and what it does when a part is killed."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from soulsgui.config.layers import Layer, combine
from tests.end_to_end.server import RunningServer, last_json, soulsgui

SECONDS_OF_LAG = 2.0


def _serve(folder: Path, *words: str, timeout_s: float) -> dict[str, Any]:
    done = soulsgui(
        "serve", "--preset", "cartpole_dqn", "--local-clients", "2", "--until-done", "--json", *words,
        folder=folder, timeout_s=timeout_s,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return last_json(done.stdout)


def _is_whole(summary: dict[str, Any]) -> None:
    assert summary["reached"] == "mean_return"
    assert summary["algorithm"] == "dqn"
    # Clients played as fast as they could, and nothing they made was too old.
    assert summary["rejected"] == {}
    assert not any(summary["restarts"].values())
    assert (Path(summary["run_dir"]) / "checkpoint").is_dir()


def test_the_preset_learns_cartpole_and_wastes_nothing(tmp_path: Path) -> None:
    summary = _serve(tmp_path, "--set", "stop.mean_return=150", timeout_s=120)
    _is_whole(summary)
    assert summary["mean_return"] >= 150


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(1, 6))
def test_the_preset_solves_cartpole(tmp_path: Path, seed: int) -> None:
    summary = _serve(tmp_path, "--set", f"seed={seed}", timeout_s=500)
    _is_whole(summary)
    assert summary["mean_return"] >= 475


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server that trains CartPole with the preset and without a goal."""
    running = RunningServer(tmp_path_factory.mktemp("server"))
    try:
        running.start_run(preset="cartpole_dqn", overrides={"stop.mean_return": None})
        yield running
    finally:
        running.close()


def _kill(pid: int | None) -> None:
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


def test_the_replay_ratio_is_kept_and_samples_are_fresh(server: RunningServer) -> None:
    server.wait_updates(2000)

    def newest(metric: str) -> float:
        history = server.api.command("history.query", {"metric": metric})
        return float(history["value"][-1])

    dqn = combine([Layer("defaults", {})]).dqn
    ratio = newest("replay_ratio")
    run = server.status().run
    assert run.rejected == {}
    assert 0 < run.policy_lag < SECONDS_OF_LAG * run.updates_per_s
    assert ratio > 0
    assert dqn.replay_ratio > 0
