"""Tuned presets from one command, through every process, until their goal."""

from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.server import last_json, soulsgui


def trained(preset: str, seed: int, folder: Path, timeout_s: float) -> dict[str, Any]:
    """Train with two clients until the goal is reached; return how it ended, summed up."""
    done = soulsgui(
        "serve", "--preset", preset, "--local-clients", "2", "--until-done", "--json",
        "--set", f"seed={seed}", folder=folder, timeout_s=timeout_s,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    summary = last_json(done.stdout)
    assert summary["reached"] == "mean_return"
    assert summary["rejected"] == {}
    assert not any(summary["restarts"].values())
    assert (Path(summary["run_dir"]) / "checkpoint").is_dir()
    return summary


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(1, 4))
def test_soft_actor_critic_swings_pendulum_up(tmp_path: Path, seed: int) -> None:
    summary = trained("pendulum_sac", seed, tmp_path, 500)
    assert summary["algorithm"] == "sac"
    assert summary["mean_return"] >= -150


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("seed", range(1, 6))
def test_vtrace_solves_cartpole(tmp_path: Path, seed: int) -> None:
    summary = trained("cartpole_vtrace", seed, tmp_path, 300)
    assert summary["algorithm"] == "vtrace"
    assert summary["best_mean_return"] >= 475
    assert "policy: " in (Path(summary["run_dir"]) / "network.txt").read_text(encoding="utf-8")
