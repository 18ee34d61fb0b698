from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from soulsgui.config.paths import Folders
from soulsgui.runner.refusal import Refused
from soulsgui.runner.run.history import log_lines, log_paths, refuse_unknown, server_logs
from soulsgui.runner.run.library import Library
from soulsgui.runner.run.record import RunRecord
from soulsgui.telemetry.recorder import Recorder
from soulsgui.telemetry.store import query_history
from soulsgui.wire.control import ErrorCode, HistoryLogsParams, HistoryQueryParams
from tests.telemetry.helpers import RUN_ID, arrivals, episode, make_run, update_row


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


def test_each_run_has_its_own_logs_and_the_server_has_its_own_too(folders: Folders, library: Library) -> None:
    assert set(log_paths(folders, library, "latest")) == {"redis"}
    with pytest.raises(Refused, match="no run"):
        log_paths(folders, library, "1999")
    old = add_run(library, 1.0, "old\n")
    add_run(library, 100_000.0, "new\n")
    for run_id, text in ((old, "old"), ("latest", "new")):
        paths = log_paths(folders, library, run_id)
        lines, first = log_lines(paths, HistoryLogsParams(service="trainer"))
        assert ([line.text for line in lines], first) == ([text], 1)


def test_all_logs_are_merged_by_time_and_tracebacks_stay_whole(folders: Folders, library: Library) -> None:
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


def test_what_a_run_does_not_know_is_refused_and_what_may_come_is_empty(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    asked = HistoryQueryParams(metric="losss")
    refuse_unknown(run, asked, query_history(run.store, asked), [])  # no rows yet
    with closing(Recorder(run.store, RUN_ID, 3, None)) as recorder:
        recorder.record(
            [update_row(1, loss=0.5)], arrivals(episode(), client="gamer-01"), recorder.cursor, 0.0
        )

    def said(**changed: Any) -> str:
        asked = HistoryQueryParams(**changed)
        found = query_history(run.store, asked)
        assert found.value == []
        with pytest.raises(Refused) as caught:
            refuse_unknown(run, asked, found, ["gamer-02"])
        assert caught.value.code is ErrorCode.NOT_FOUND
        return str(caught.value)

    assert "no metric “losss”.\nDid you mean loss? There are: return, " in said(metric="losss")
    assert "no client “gamer-1”.\nDid you mean gamer-01?" in said(client="gamer-1")
    for asked in (
        HistoryQueryParams(metric="evaluation_return"),
        HistoryQueryParams(client="gamer-02"),
        HistoryQueryParams(client="gamer-01", start=100.0),
    ):
        refuse_unknown(run, asked, query_history(run.store, asked), ["gamer-02"])
