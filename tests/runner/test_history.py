"""Logs of runs and of what outlives them."""

import pytest

from soulsgui.config.paths import Folders
from soulsgui.runner.history import log_lines, log_paths, server_logs
from soulsgui.runner.library import Library
from soulsgui.runner.refusal import Refused
from soulsgui.runner.run.record import RunRecord
from soulsgui.wire.control import HistoryLogsParams


@pytest.fixture
def library(folders: Folders) -> Library:
    library = Library(folders.runs)
    logs = server_logs(folders)
    logs.mkdir(parents=True)
    (logs / "redis.log").write_text("2026-11-20 10:00:01.000 INFO redis: up\n")
    return library


def add_run(library: Library, created: float, text: str) -> str:
    run = library.create("", created)
    library.write_record(run, RunRecord(id=run.run_id, created=created))
    (run.logs / "trainer.log").write_text(text)
    return run.run_id


def test_logs_of_the_server_are_there_before_the_first_run(folders: Folders, library: Library) -> None:
    assert set(log_paths(folders, library, "latest")) == {"redis"}
    with pytest.raises(Refused, match="no run"):
        log_paths(folders, library, "1999")


def test_each_run_has_its_own_logs(folders: Folders, library: Library) -> None:
    old = add_run(library, 1.0, "old\n")
    add_run(library, 100_000.0, "new\n")
    for run_id, text in ((old, "old"), ("latest", "new")):
        paths = log_paths(folders, library, run_id)
        lines, first = log_lines(paths, HistoryLogsParams(service="trainer"))
        assert ([line.text for line in lines], first) == ([text], 1)


def test_all_logs_are_put_together_by_time_and_tracebacks_stay_whole(
    folders: Folders, library: Library
) -> None:
    add_run(
        library,
        1.0,
        "2026-11-20 10:00:00.000 ERROR a: oh\nTraceback\n  line 1\n2026-11-20 10:00:02.000 INFO a: on\n",
    )
    paths = log_paths(folders, library, "latest")
    lines, _ = log_lines(paths, HistoryLogsParams())
    assert [line.text for line in lines] == ["a: oh", "Traceback", "  line 1", "redis: up", "a: on"]
    newest, _ = log_lines(paths, HistoryLogsParams(n=2))
    assert [line.service for line in newest] == ["redis", "trainer"]
    with pytest.raises(Refused, match="numbered per service"):
        log_lines(paths, HistoryLogsParams(before=3))
