"""The record of a run that is over is written as soon as that is possible, whatever was in the way."""

import logging
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from soulsgui.config.paths import Folders, RunFolder
from soulsgui.config.schema import Settings
from soulsgui.runner.active import Active
from soulsgui.runner.library import Library
from soulsgui.runner.opening import choose_checkpoint, chosen_checkpoint
from soulsgui.runner.run import RunRecord
from soulsgui.runner.standing import Standing


@pytest.fixture
def run(folders: Folders) -> RunFolder:
    return Library(folders.runs).create("one", 0.0)


@pytest.mark.allow_warnings
@pytest.mark.parametrize("trouble", [OSError("full"), ValueError("a defect")], ids=str)
def test_what_is_owed_is_tried_again_until_it_is_written(
    folders: Folders,
    run: RunFolder,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    trouble: Exception,
) -> None:
    caplog.set_level(logging.INFO)
    library, knowledge = Library(folders.runs), SimpleNamespace()
    standing = Standing(folders, library, knowledge)  # type: ignore[arg-type]
    standing.record = RunRecord(id=run.run_id, state="finished", reached="stopped")
    choose_checkpoint(run, "checkpoint")

    def fail(*_: Any) -> None:
        raise trouble

    with monkeypatch.context() as patched:
        patched.setattr(library, "write_record", fail)
        standing.note_record(run)
        for now in (0.0, 10.0):
            assert standing.look(now, 0.0) == ""
    assert caplog.text.count("can't be written") == 1
    standing.look(20.0, 0.0)
    assert library.record(run).reached == "stopped"
    assert chosen_checkpoint(run) is None
    assert "is written" in caplog.text


@pytest.mark.allow_warnings
def test_a_choice_that_could_not_be_taken_back_is_taken_back_later(
    folders: Folders, run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    library, knowledge = Library(folders.runs), SimpleNamespace()
    standing = Standing(folders, library, knowledge)  # type: ignore[arg-type]
    standing.record = RunRecord(id=run.run_id, state="finished", reached="stopped")
    choose_checkpoint(run, "checkpoint")

    def fail(*_: Any, **__: Any) -> None:
        raise PermissionError("in use")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", fail)
        standing.note_record(run)
    assert chosen_checkpoint(run) is not None
    standing.look(20.0, 0.0)
    assert chosen_checkpoint(run) is None
    assert library.record(run).reached == "stopped"


def test_a_run_that_begins_in_the_middle_of_a_turn_has_gone_on_for_no_time(run: RunFolder) -> None:
    turn = time.monotonic()
    active = Active(run, Settings(), None, None, 5.0)  # type: ignore[arg-type]
    assert active.seconds(turn) == 5.0
