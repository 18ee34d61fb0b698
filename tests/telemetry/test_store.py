import math
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from soulsgui.telemetry.recorder import Recorder
from soulsgui.telemetry.store import StoreError, query_history
from soulsgui.telemetry.store.schema import open_for_writing, set_aside
from soulsgui.wire.control import History, HistoryQueryParams
from soulsgui.wire.keys import EntryId
from tests.telemetry.helpers import (
    RUN_ID,
    arrivals,
    attempt_row,
    checkpoint_row,
    episode,
    recorder_of,
    update_row,
)


def test_every_table_and_column_stands_on_the_page(path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "telemetry.md").read_text(encoding="utf-8")
    with closing(open_for_writing(path)) as store:
        tables = [name for (name,) in store.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        columns = [one[1] for table in tables for one in store.execute(f"PRAGMA table_info({table})")]
    assert [one for one in (*tables, *columns) if f"`{one}`" not in page] == []


@pytest.fixture
def resumed(path: Path) -> Path:
    """A store of a run resumed twice: 5 episodes of 10 steps, back to 3, two more, back to 1, one more."""
    cursor = EntryId(1, 1)
    with recorder_of(path) as recorder:
        recorder.record([attempt_row(1)], arrivals(*(episode(float(n)) for n in range(5))), cursor, 1000.0)
        rows = [update_row(1, env_steps=30, loss=0.3), update_row(2, env_steps=50, loss=0.2)]
        recorder.record(rows, [], cursor, 1001.0)
        rows = [attempt_row(2, env_steps=30, episodes=3, update=1), update_row(2, 2, env_steps=50, loss=0.1)]
        played = arrivals(episode(10.0, attempt=2), episode(11.0, attempt=2), client="b")
        recorder.record(rows, played, cursor, 1002.0)
        last = [attempt_row(3, env_steps=10, episodes=1, update=1)]
        recorder.record(last, arrivals(episode(20.0, attempt=3), first=6), cursor, 1003.0)
    return path


def test_a_missing_or_empty_store_has_an_empty_history(path: Path) -> None:
    history = query_history(path, HistoryQueryParams())
    assert (history.run_id, history.row, history.value, history.last_row) == (RUN_ID, [], [], 0)
    assert (history.count, history.attempts, history.overwritten) == ([], [], [])
    assert not path.exists()
    path.touch()
    assert query_history(path, HistoryQueryParams()).row == []
    with recorder_of(path):
        pass
    assert query_history(path, HistoryQueryParams()).row == []
    assert query_history(path, HistoryQueryParams(metric="loss")).row == []


def test_a_resume_continues_the_axes_and_marks_what_it_overwrote(resumed: Path) -> None:
    history = query_history(resumed, HistoryQueryParams())
    assert history.row == [1, 2, 3, 4, 5, 6, 7, 8]
    assert history.attempt == [1, 1, 1, 1, 1, 2, 2, 3]
    assert history.episode == [1, 2, 3, 4, 5, 4, 5, 2]
    assert history.env_steps == [10, 20, 30, 40, 50, 40, 50, 20]
    assert history.overwritten == [False, True, True, True, True, True, True, False]
    starts = [(start.attempt, start.env_steps, start.episodes) for start in history.attempts]
    assert starts == [(1, 0, 0), (2, 30, 3), (3, 10, 1)]
    history = query_history(resumed, HistoryQueryParams(metric="loss"))
    assert (history.row, history.attempt) == ([1, 2, 2], [1, 1, 2])
    assert history.value == [0.3, 0.2, 0.1]
    assert history.overwritten == [False, True, True]
    assert (history.last_update, history.last_row, history.count) == ((2, 2), 8, [1, 1, 1])


def test_each_metric_reads_its_own_values_which_pass_as_a_message(resumed: Path) -> None:
    means = [0.0, 0.5, 1.5, 2.5, 3.5, 6.0, 10.5, 10.0]
    for metric, values in (("length", [10.0] * 8), ("mean_return", means)):
        history = query_history(resumed, HistoryQueryParams(metric=metric))
        assert (history.value, len(history.low), len(history.row)) == (values, 8, 8)
        assert all(type(value) is float for value in history.value)
        assert History.model_validate_json(history.to_json()) == history
    assert history.metrics == ["return", "length", "mean_return", "loss"]
    assert query_history(resumed, HistoryQueryParams(metric="no such")).row == []
    before = resumed.read_bytes()
    history = query_history(resumed, HistoryQueryParams(client="b"))
    assert resumed.read_bytes() == before, "who reads does not write"
    assert (history.row, history.count, history.last_row) == ([6, 7], [1, 1], 8)
    for nothing in ({"client": "nobody"}, {"client": "b", "metric": "loss"}):
        assert query_history(resumed, HistoryQueryParams(**nothing)).row == []
    with closing(sqlite3.connect(resumed)) as db:
        db.execute("PRAGMA user_version = 99")
    for refused in (
        lambda: query_history(resumed, HistoryQueryParams()),
        lambda: Recorder(resumed, RUN_ID, 2, None),
    ):
        with pytest.raises(StoreError, match="format 99"):
            refused()


Long = tuple[Path, dict[str, NDArray[np.float64]]]
Limit = float | None
ROWS = 40_000
WENT_BACK = 30_000


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Long:
    """A store of many episodes and updates, the last ones in an attempt that went back; and what is in it."""
    path = tmp_path_factory.mktemp("long") / "telemetry.sqlite"
    rng, cursor = np.random.default_rng(0), EntryId(1, 1)
    values, lengths = rng.normal(size=ROWS), rng.integers(1, 500, ROWS)
    attempt = np.where(np.arange(ROWS) < WENT_BACK, 1, 2)
    number = np.arange(1, ROWS + 1) - np.where(attempt == 2, 5_000, 0)
    steps = np.concatenate(
        (lengths[:WENT_BACK].cumsum(), lengths[:25_000].sum() + lengths[WENT_BACK:].cumsum())
    )
    with recorder_of(path) as recorder:
        recorder.record([attempt_row(1)], [], cursor, 0.0)
        for first in range(0, ROWS, 500):
            told: list[Any] = [update_row(n, loss=float(n)) for n in range(first // 50 + 1, first // 50 + 11)]
            if first == WENT_BACK:
                start = lengths[:25_000].sum()
                told = [attempt_row(2, env_steps=int(start), episodes=25_000, update=500)]
            played = (
                episode(float(values[n]), int(lengths[n]), attempt=int(attempt[n]))
                for n in range(first, first + 500)
            )
            recorder.record(told, arrivals(*played, first=first + 1), cursor, 1000.0 + first)
    columns = {"attempt": attempt, "episode": number, "env_step": steps, "value": values}
    return path, {"row": np.arange(1, ROWS + 1), "time": 1000.0 + np.arange(ROWS) // 500 * 500, **columns}


@pytest.mark.parametrize("rolled_up", [True, False])
@pytest.mark.parametrize(
    ("axis", "start", "end", "points"),
    [
        ("episode", None, None, 500),
        ("episode", None, None, 2000),
        ("episode", 3, 20_005, 300),
        ("episode", 25_000, 26_000, 100),
        ("episode", 777, 790, 100),
        ("env_step", 1_000_000, 7_000_001, 1000),
        ("env_step", None, 100_000, 2000),
        ("time", 1500.0, 21_400.0, 200),
    ],
)
def test_buckets_hold_every_row_of_a_range_once(
    long: Long,
    tmp_path: Path,
    axis: str,
    start: float | None,
    end: float | None,
    points: int,
    rolled_up: bool,
) -> None:
    path, rows = long
    if not rolled_up:
        path = _without_blocks(path, tmp_path)
    params = HistoryQueryParams.model_validate({"x": axis, "start": start, "end": end, "points": points})
    history = query_history(path, params)
    x = rows[axis]
    asked = (x >= (-np.inf if start is None else start)) & (x <= (np.inf if end is None else end))
    assert min(points, int(asked.sum())) / 10 <= len(history.row) <= points
    assert history.row == sorted(history.row)
    assert sum(history.count) == asked.sum()
    assert (min(history.low), max(history.high)) == (rows["value"][asked].min(), rows["value"][asked].max())
    before = {1: 0, 2: 0}
    columns = (history.row, history.attempt, history.episode, history.value, history.low, history.high)
    for last, attempt, place, value, low, high, count in zip(*columns, history.count, strict=True):
        mine = asked & (rows["attempt"] == attempt) & (rows["row"] > before[attempt]) & (rows["row"] <= last)
        assert count == mine.sum()
        assert place == rows["episode"][last - 1]
        found = rows["value"][mine]
        assert (value, low, high) == (pytest.approx(found.mean()), found.min(), found.max())
        before[attempt] = last


@pytest.mark.parametrize("axis", ["episode", "time"])
def test_rows_that_are_few_enough_are_kept_apart(long: Long, axis: str) -> None:
    path, rows = long
    start, end = float(rows[axis][777]), float(rows[axis][777 + 319])
    params = HistoryQueryParams.model_validate({"x": axis, "start": start, "end": end, "points": 1000})
    asked = int(((rows[axis] >= start) & (rows[axis] <= end)).sum())
    few = params.model_copy(update={"points": asked})
    for history in (query_history(path, params), query_history(path, few)):
        assert history.count == [1] * asked
    # Updates come in buckets too.
    history = query_history(path, HistoryQueryParams(metric="loss", points=100, end=250 * 10))
    assert len(history.row) <= 100
    assert (sum(history.count), history.row[-1], history.low[0], history.high[-1]) == (250, 250, 1.0, 250.0)
    assert np.repeat(history.value, history.count).mean() == pytest.approx(np.arange(1, 251).mean())


def _without_blocks(path: Path, folder: Path) -> Path:
    """Return a store as earlier versions made it."""
    old = folder / "old.sqlite"
    old.write_bytes(path.read_bytes())
    with closing(sqlite3.connect(old)) as db:
        db.executescript("DROP TABLE blocks; DROP TABLE rolled_up;")
    return old


def test_a_store_of_an_earlier_version_is_rolled_up_when_it_is_written_again(
    long: Long, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, old = long[0], _without_blocks(long[0], tmp_path)
    monkeypatch.setattr("soulsgui.telemetry.store.schema._MOST_AT_ONCE", 7_000)
    with recorder_of(old) as recorder:
        recorder.record([], arrivals(episode(7.0, attempt=2), first=ROWS + 1), EntryId(1, 1), 1e6)
    with closing(sqlite3.connect(path)) as one, closing(sqlite3.connect(old)) as other:
        query = f"SELECT * FROM blocks WHERE last <= {ROWS} ORDER BY metric, size, attempt, block"
        expected = one.execute(query).fetchall()
        assert len(expected) > ROWS / 16
        # Blocks that are not full hold the new row.
        assert set(other.execute(query)) <= set(expected)
        counted = "SELECT size, sum(count) FROM blocks WHERE metric = 'return' GROUP BY size"
        assert other.execute(counted).fetchall() == [(size, ROWS + 1) for size in (16, 256, 4096)]


@pytest.mark.parametrize(
    ("axis", "start", "end", "rows"),
    [
        ("episode", 4, None, [4, 5, 6, 7]),
        ("episode", 2, 3, [2, 3, 8]),
        ("env_step", None, 20, [1, 2, 8]),
        ("env_step", 45.5, 1e9, [5, 7]),
        ("time", 1001.0, 1002.5, [6, 7]),
    ],
)
def test_start_and_end_are_on_the_chosen_axis_and_inclusive(
    resumed: Path, axis: str, start: float | None, end: float | None, rows: list[int]
) -> None:
    params = HistoryQueryParams.model_validate({"x": axis, "start": start, "end": end})
    history = query_history(resumed, params)
    assert (history.row, history.count) == (rows, [1] * len(rows))
    history = query_history(resumed, HistoryQueryParams(metric="loss", x="env_step", start=40, end=60))
    assert (history.attempt, history.count) == ([1, 2], [1, 1])


def test_episodes_stand_along_the_updates_that_were_made_by_then(resumed: Path) -> None:
    history = query_history(resumed, HistoryQueryParams(x="update"))
    assert history.update == [0, 0, 1, 1, 2, 1, 2, 1]
    assert history.value == [0.0, 1.0, 2.0, 3.0, 4.0, 10.0, 11.0, 20.0]
    part = query_history(resumed, HistoryQueryParams(x="update", start=1, end=1))
    assert (part.update, part.value) == ([1, 1, 1, 1], [2.0, 3.0, 10.0, 20.0])
    losses = query_history(resumed, HistoryQueryParams(x="update", metric="loss", start=2))
    assert (losses.update, losses.value) == ([2, 2], [0.2, 0.1])
    assert query_history(resumed, HistoryQueryParams()).update == []


def test_a_history_names_the_clients_whose_episodes_it_has(resumed: Path) -> None:
    assert query_history(resumed, HistoryQueryParams()).clients == ["a", "b"]


def test_rows_told_twice_are_stored_once_and_what_is_no_number_is_left_out(path: Path) -> None:
    rows = [attempt_row(1), update_row(1, loss=1.0), update_row(2, loss=math.nan), checkpoint_row(1)]
    with recorder_of(path) as recorder:
        for _ in range(2):
            recorder.record(rows, [], EntryId(1, 1), 1.0)
        more = [attempt_row(1, env_steps=99), update_row(1, loss=9.0), update_row(3, loss=3.0)]
        recorder.record(more, [], EntryId(1, 2), 1.0)
        assert recorder.cursor == EntryId(1, 2)
    history = query_history(path, HistoryQueryParams(metric="loss"))
    assert (history.row, history.value, history.count) == ([1, 3], [1.0, 3.0], [1, 1])
    assert (history.last_update, history.attempts[0].env_steps) == ((1, 3), 0)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM checkpoints").fetchone() == (1,)


def test_readers_see_committed_rows_while_the_writer_is_open_and_do_not_stop_it(path: Path) -> None:
    with recorder_of(path) as recorder:
        for n in range(20):
            recorder.record([], arrivals(episode(float(n)), first=n + 1), EntryId(1, 1), 1.0)
            assert query_history(path, HistoryQueryParams()).last_row == n + 1
        reader = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM episodes").fetchone()
        recorder.record([], arrivals(episode(), first=21), EntryId(1, 1), 1.0)
        assert reader.execute("SELECT count(*) FROM episodes").fetchone() == (20,)
        reader.close()
        assert query_history(path, HistoryQueryParams()).last_row == 21


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_store_in_a_folder_that_can_not_be_written_to_is_read(resumed: Path) -> None:
    resumed.parent.chmod(0o500)
    try:
        assert query_history(resumed, HistoryQueryParams()).row == list(range(1, 9))
    finally:
        resumed.parent.chmod(0o700)


@pytest.mark.allow_warnings
def test_a_damaged_store_is_set_aside_and_a_new_one_begun(path: Path) -> None:
    damage = b"this is not a database, whatever its name says" * 100
    for name in ("telemetry.sqlite.damaged", "telemetry.sqlite.damaged-2"):
        path.write_bytes(damage)
        with pytest.raises(StoreError, match="can't be read"):
            query_history(path, HistoryQueryParams())
        with recorder_of(path) as recorder:
            assert recorder.lost == path.with_name(name)
            assert recorder.last_row == 0
            recorder.record([], arrivals(episode()), EntryId(1, 1), 1.0)
        assert path.with_name(name).read_bytes() == damage
        assert query_history(path, HistoryQueryParams()).row == [1]
        path.unlink()
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 1")
    with recorder_of(path) as recorder:
        assert (recorder.lost, recorder.last_row) == (path.with_name("telemetry.sqlite.damaged-3"), 0)


def test_a_store_that_is_damaged_in_use_is_set_aside_with_its_log(path: Path) -> None:
    recorder = Recorder(path, RUN_ID, 2, None)
    error = sqlite3.DatabaseError("database disk image is malformed")
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    told = recorder.give_up(error)
    assert "malformed" in told.message
    assert told.remedy
    assert path.with_name("telemetry.sqlite.damaged").exists()
    assert not path.exists()
    log = path.with_name("telemetry.sqlite-wal")
    for file in (path, log):
        file.write_bytes(file.name.encode())
    aside = set_aside(path)
    assert aside.read_bytes() == path.name.encode()
    assert aside.with_name(f"{aside.name}-wal").read_bytes() == log.name.encode()
    assert not log.exists()


def test_a_reader_finds_none_of_the_tables_or_all(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = sqlite3.connect
    seen = set()

    def look(_: str) -> None:
        with closing(connect(path.as_uri() + "?mode=ro", uri=True)) as reader:
            seen.add(reader.execute("SELECT count(*) FROM sqlite_master WHERE type = 'table'").fetchone()[0])

    def traced(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        connection = connect(*args, **kwargs)
        connection.set_trace_callback(look)
        return connection

    monkeypatch.setattr(sqlite3, "connect", traced)
    open_for_writing(path).close()
    with closing(connect(path)) as made:
        tables = made.execute("SELECT count(*) FROM sqlite_master WHERE type = 'table'").fetchone()[0]
    assert seen <= {0, tables}
    assert 0 in seen
