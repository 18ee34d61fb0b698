"""Only the disk of the runs is full: a user is told, and nothing claims to be saved."""

import os
from contextlib import closing
from pathlib import Path

import pytest

from soulsgui.system import free_disk_bytes
from soulsgui.wire.api_client import CommandFailedError
from soulsgui.wire.control import ServiceStatus
from tests.end_to_end.server import UNHURRIED, RunningServer, soulsgui_here, wait_for
from tests.faults.small_disk import fill, small_disk


def _trainer(server: RunningServer) -> ServiceStatus:
    return next(one for one in server.status().services if one.name == "trainer")


def _filled(runs: Path, server: RunningServer) -> Path | None:
    """Fill the disk once more; return what fills it, None while the run does not pause.

    A checkpoint that is written at that moment replaces an older one, and leaves its room.
    """
    filler = fill(runs)
    return filler if server.status().run.state == "paused" else None


def test_of_a_small_disk_a_run_uses_all_but_an_eighth(tmp_path: Path) -> None:
    with small_disk(tmp_path / "data", "200m") as data, closing(RunningServer(tmp_path)) as server:
        server.start_run(overrides={**UNHURRIED, "clients.local": 1})
        filler = data / "filler"
        with filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, free_disk_bytes(data) - 20 * 2**20)
        wait_for(lambda: server.status().run.state == "paused", "the run rests")
        assert server.status().run.detail.startswith("the disk is nearly full")
        filler.unlink()
        wait_for(lambda: server.status().run.state == "running", "it goes on by itself")


def test_a_run_on_a_full_disk_pauses_goes_on_and_does_not_end_as_saved(tmp_path: Path) -> None:
    with small_disk(tmp_path / "data" / "runs", "6m") as runs, closing(RunningServer(tmp_path)) as server:
        run = server.start_run(overrides={**UNHURRIED, "checkpoint.every_updates": 1, "clients.local": 1})
        wait_for((run / "checkpoint").exists, "the first checkpoint")
        filler = wait_for(lambda: _filled(runs, server), "the run pauses")
        said = server.status().run.detail
        assert said.startswith("not saved since ")
        assert f"no space left on {run}" in said
        wait_for(lambda: _trainer(server).phase == "paused", "its card says so")
        assert _trainer(server).state == "running"
        assert _trainer(server).detail.startswith("not saved since ")
        told = server.api.command("history.events")["events"][-1]
        assert (told["level"], "is not saved since" in told["what"]) == ("error", True)
        assert told["remedy"] == "Free some space; training continues by itself."

        with pytest.raises(CommandFailedError, match="no space left on"):
            server.api.command("checkpoint.save")

        filler.unlink()
        server.wait_updates(2)
        wait_for(
            lambda: server.api.command("history.events")["events"][-1]["what"].endswith("is saved again"),
            "it is told",
        )

        wait_for(lambda: _filled(runs, server), "the run pauses again")
        stopped = soulsgui_here("run", "stop", folder=tmp_path)
        assert stopped.returncode == 1
        assert "was not saved" in stopped.stderr
        assert "soulsgui run resume" in stopped.stderr
        last = server.status().run
        assert last.state == "stopped"
        assert last.error.startswith("Not saved: the last ")
        assert server.api.command("history.events")["events"][-1]["level"] == "error"
