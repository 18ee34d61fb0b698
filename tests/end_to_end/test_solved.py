"""Tuned presets from one command, through every process, until their goal."""

from pathlib import Path

import pytest

from tests.end_to_end.server import last_json, soulsgui

GOALS = {
    "cartpole_async": ("dqn", "mean_return", 475, 5),
    "cartpole_dqn": ("dqn", "mean_return", 475, 5),
    "cartpole_seed": ("dqn", "mean_return", 475, 5),
    "cartpole_vtrace": ("vtrace", "best_mean_return", 475, 5),
    "pendulum_crossq": ("sac", "mean_return", -150, 1),
    "pendulum_sac": ("sac", "mean_return", -150, 3),
    "pendulum_td3": ("sac", "mean_return", -150, 1),
    "pendulum_tqc": ("sac", "mean_return", -150, 1),
}
"""Of each preset its algorithm, which return has to be how high, and how many seeds are tried."""


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("preset", "seed"), [(preset, seed) for preset, goal in GOALS.items() for seed in range(1, goal[3] + 1)]
)
def test_a_preset_reaches_its_goal_and_wastes_nothing(tmp_path: Path, preset: str, seed: int) -> None:
    done = soulsgui(
        "serve", "--preset", preset, "--local-clients", "2", "--until-done", "--json",
        "--set", f"seed={seed}", folder=tmp_path, timeout_s=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    summary = last_json(done.stdout)
    algorithm, name, goal, _ = GOALS[preset]
    assert (summary["algorithm"], summary["reached"]) == (algorithm, "mean_return")
    assert summary[name] >= goal
    # Clients played as fast as they could, and nothing of it was too old.
    assert summary["rejected"] == {}
    assert not any(summary["restarts"].values())
    assert (Path(summary["run_dir"]) / "checkpoint").is_dir()
    assert "policy: " in (Path(summary["run_dir"]) / "network.txt").read_text(encoding="utf-8")
