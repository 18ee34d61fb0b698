from pathlib import Path
from typing import Any

import pytest

from soulsgui.telemetry.sinks import records
from soulsgui.telemetry.sinks.records import Cursor, read_records, thinned
from soulsgui.wire.keys import EntryId
from soulsgui.wire.messages.metrics import ResourceRow, UpdateRow
from tests.telemetry.helpers import (
    RUN_ID,
    arrivals,
    attempt_row,
    checkpoint_row,
    episode,
    recorder_of,
    update_row,
)

_EVALUATED = update_row(2, evaluation_return=7.0).model_dump() | {"kind": "evaluation"}
_USED = {
    "run_id": RUN_ID,
    "attempt": 1,
    "update": 2,
    "env_steps": 30,
    "episodes": 4,
    "model_id": 5,
    "values": {"cpu": 0.5},
}


def test_everything_comes_once_in_the_order_of_time(path: Path) -> None:
    with recorder_of(path) as recorder:
        recorder.record([attempt_row(1), update_row(1, loss=0.5)], [], EntryId(1, 1), 0.0)
        recorder.record([], arrivals(episode(1.0), episode(2.0, model_id=3)), EntryId(1, 1), 102.5)
        first, cursor = read_records(path, Cursor())
        assert [record.kind for record in first] == ["attempt", "update", "episode", "episode"]
        assert first[1].values == {"loss": 0.5}
        last = first[-1]
        assert last.values == {"return": 2.0, "length": 10.0, "seconds": 0.1, "mean_return": 1.5}
        assert (last.env_steps, last.episodes, last.model_id, last.client) == (20, 2, 3, "a")
        assert read_records(path, cursor) == ([], cursor)
        rows = [UpdateRow(**_EVALUATED), checkpoint_row(2)]
        recorder.record(rows, arrivals(episode(3.0), first=3), EntryId(1, 2), 300.0)
        second, _ = read_records(path, cursor)
    assert [record.kind for record in second] == ["evaluation", "checkpoint", "episode"]
    assert second[0].values == {"evaluation_return": 7.0}


def test_of_many_rows_no_more_is_read_than_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "_MOST_UPDATES", 2)
    with recorder_of(path) as recorder:
        for n in (1, 2, 3):
            evaluated = UpdateRow(**_EVALUATED | {"update": n})
            used = ResourceRow(**_USED | {"time": float(n)})
            recorder.record([evaluated, used], [], EntryId(1, n), 0.0)
    read, points = list[tuple[str, int]](), records._points

    def counted(db: Any, kind: Any, table: str, values: str, after: int) -> Any:
        read.append((kind, len(db.execute(values, (after, after + 2)).fetchall())))
        return points(db, kind, table, values, after)

    monkeypatch.setattr(records, "_points", counted)
    first, cursor = read_records(path, Cursor())
    second, _ = read_records(path, cursor)
    assert ([one.kind for one in first].count("resources"), len(second)) == (2, 2)
    assert {("evaluation", 2), ("resources", 2), ("evaluation", 1), ("resources", 1)} <= set(read)
    assert not [one for one in read if one[1] > 2]


def test_a_store_that_was_begun_anew_is_read_from_its_beginning(path: Path) -> None:
    with recorder_of(path) as recorder:
        recorder.record([], arrivals(episode(1.0)), EntryId(1, 1), 1.0)
        found, _ = read_records(path, Cursor(episodes=100, updates=100, event=9))
    assert [record.values["return"] for record in found] == [1.0]
    assert read_records(path.with_name("none"), Cursor()) == ([], Cursor())


def test_many_episodes_become_means_in_few_points(path: Path) -> None:
    with recorder_of(path, window=1) as recorder:
        recorder.record([update_row(1, loss=1.0)], [], EntryId(1, 1), 0.0)
        many = arrivals(*(episode(float(n)) for n in range(100)))
        recorder.record([], many, EntryId(1, 1), 1.0)
        found, _ = read_records(path, Cursor())
    told = [record for record in thinned(found, 4) if record.kind == "episode"]
    assert [record.values["return"] for record in told] == [12.0, 37.0, 62.0, 87.0]
    assert [record.values["mean_return"] for record in told] == [24.0, 49.0, 74.0, 99.0]
    assert len(thinned(found, 4)) == 5
    assert thinned(found, 100) == found
