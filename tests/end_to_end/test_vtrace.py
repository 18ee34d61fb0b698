"""V-trace through the real system: one command, clients that never wait, a trained agent."""

from pathlib import Path

import pytest

from tests.end_to_end.server import last_json, soulsgui


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("seed", range(1, 6))
def test_the_preset_solves_cartpole(tmp_path: Path, seed: int) -> None:
    done = soulsgui(
        "serve", "--preset", "cartpole_vtrace", "--local-clients", "2", "--until-done", "--json",
        "--set", f"seed={seed}", folder=tmp_path, timeout_s=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    summary = last_json(done.stdout)
    assert (summary["algorithm"], summary["reached"]) == ("vtrace", "mean_return")
    assert summary["best_mean_return"] >= 475
    assert summary["rejected"] == {}
    assert not any(summary["restarts"].values())
    assert (Path(summary["run_dir"]) / "checkpoint").is_dir()
    assert "policy: " in (Path(summary["run_dir"]) / "network.txt").read_text(encoding="utf-8")
