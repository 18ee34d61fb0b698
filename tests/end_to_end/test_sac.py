"""Soft actor-critic from one command, through every process."""

from pathlib import Path

import pytest

from tests.end_to_end.server import last_json, soulsgui


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(1, 4))
def test_the_preset_swings_pendulum_up(tmp_path: Path, seed: int) -> None:
    done = soulsgui(
        "serve", "--preset", "pendulum_sac", "--local-clients", "2", "--until-done", "--json",
        "--set", f"seed={seed}", folder=tmp_path, timeout_s=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    summary = last_json(done.stdout)
    assert (summary["algorithm"], summary["reached"]) == ("sac", "mean_return")
    assert summary["mean_return"] >= -200
    assert summary["rejected"] == {}
