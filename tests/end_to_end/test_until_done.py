import json
from pathlib import Path

import pytest

from tests.end_to_end.server import last_json, processes_below, soulsgui

FIELDS = {
    "run_id", "run_dir", "env_id", "algorithm", "seed", "env_steps", "episodes", "updates", "seconds",
    "mean_return", "best_mean_return", "reached", "checkpoint", "rejected", "restarts",
}  # fmt: skip


def test_the_shipped_default_solves_cartpole_and_ends_by_itself(tmp_path: Path) -> None:
    done = soulsgui(
        "serve", "--set", "stop.mean_return=475", "--local-clients", "2", "--until-done", "--json",
        folder=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    summary = last_json(done.stdout)
    assert set(summary) >= FIELDS
    assert summary["reached"] == "mean_return"
    assert summary["mean_return"] >= 475
    assert summary["env_steps"] <= 60_000
    assert summary["rejected"] == {}
    assert not any(summary["restarts"].values())
    run = Path(summary["run_dir"])
    assert Path(summary["checkpoint"]) == run / "checkpoint"
    files = {"config.json", "telemetry.sqlite", "telemetry.json", "telemetry.png", "best_model"}
    assert files <= {path.name for path in run.iterdir()}
    assert processes_below(tmp_path) == []
    saved = json.loads((run / "best_model" / "manifest.json").read_text())
    told = json.loads((run / "telemetry.json").read_text())
    assert summary["goal_judged_by"] == "both"
    assert saved["scored_by"] == "evaluation"
    assert saved["model_id"] == told["best_evaluation_model_id"]
    assert saved["score"] == pytest.approx(told["best_evaluation_return"])
    assert saved["score"] == summary["best_mean_return"] >= 475
    refused = soulsgui("serve", "--resume", "latest", "--until-done", folder=tmp_path)
    assert refused.returncode == 1
    assert "has reached its goal return: it would end again at once" in refused.stderr
    assert "--without-goal" in refused.stderr


def test_a_goal_out_of_reach_is_not_reached_by_chance(tmp_path: Path) -> None:
    done = soulsgui(
        "serve", "--set", "env.id=Blackjack-v1", "--set", "stop.mean_return=0.5", "--set", "seed=31337",
        "--set", "stop.env_steps=9000", "--local-clients", "1", "--until-done", "--json",
        folder=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    summary = last_json(done.stdout)
    assert (summary["reached"], summary["goal_judged_by"]) == ("env_steps", "both")
    assert summary["env_steps"] == 9216  # nine rounds of 4 environments × 256 steps
    assert summary["evaluation_return"] < 0.5
    assert (Path(summary["run_dir"]) / "best_model").is_dir()
    told = (tmp_path / "data" / "server" / "events.jsonl").read_text()
    assert "do not confirm the goal" in told, "windows of training did reach it"
