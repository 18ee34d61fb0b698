"""Runs and checkpoints of a real server: kept, loaded, handed on as files, forked, thrown away."""

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from soulsgui.wire.manifest import read_manifest
from tests.end_to_end.server import UNHURRIED, RunningServer, soulsgui_here, wait_for


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    made = RunningServer(tmp_path, draws=True)
    yield made
    made.close()


def test_a_run_is_taken_back_handed_on_as_a_file_and_forked(server: RunningServer, tmp_path: Path) -> None:
    def typed(*words: str) -> str:
        done = soulsgui_here(*words, folder=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    settings = UNHURRIED | {"clients.local": 1, "checkpoint.history_updates": 2, "checkpoint.history_kept": 3}
    run = server.start_run(name="first", overrides=settings)
    wait_for(lambda: len(list((run / "history").glob("[!.]*"))) >= 2, "a history")
    first = min((run / "history").glob("[!.]*"), key=lambda path: int(path.name))
    typed("checkpoints", "edit", f"history/{first.name}", "--pin", "yes", "--note", "the first")
    server.wait_updates(6)
    typed("run", "pause")  # so that no attempt comes further than it is looked at
    before = wait_for(lambda: (run := server.status().run).state == "paused" and run, "the run rests")
    begins_at = read_manifest(first)

    assert typed("checkpoints", "load", f"history/{first.name}").startswith("the run continues from history/")
    now = wait_for(
        lambda: (
            (run := server.status().run).model_id > before.model_id and run.attempt > before.attempt and run
        ),
        "the next attempt, under ids of its own",
    )
    assert now.updates == begins_at.updates < before.updates
    typed("run", "continue")
    server.wait_updates(1)
    found = json.loads(typed("checkpoints", "list", "--json"))
    assert any(info["updates"] >= before.updates for info in found if info["kind"] == "manual")
    assert "checkpoints are valid" in typed("checkpoints", "verify")

    weights = tmp_path / "policy.safetensors"
    exported = ("export", f"history/{first.name}", "--format", "safetensors", "--output", str(weights))
    assert "tensors, read back without differences" in typed("checkpoints", *exported)
    assert weights.is_file()
    target = tmp_path / "first.soulsrun"
    assert "read again without errors" in typed("runs", "export", "--output", str(target))
    with zipfile.ZipFile(target) as archive:
        assert "data:image/png;base64," in archive.read("report.html").decode()
        assert archive.read("curves/updates.csv").decode().startswith("attempt,")
        assert f"run/history/{first.name}/manifest.json" in archive.namelist()

    typed("run", "stop")
    copy = f"{run.name}-2"
    assert typed("runs", "import", str(target), "--name", "copy").startswith(f"imported {copy}")
    begins = f"copy/history/{first.name}"
    typed("run", "start", "--from", begins, "--set", "ppo.gamma=0.9", "--name", "fork")
    assert server.status().run.env_steps >= begins_at.env_steps
    assert "ppo.gamma" in typed("runs", "compare", "first", "fork")
    typed("run", "stop")
    typed("runs", "trash", "copy")
    assert copy not in typed("runs", "list")
    assert "are free now" in typed("runs", "purge", "--yes")
