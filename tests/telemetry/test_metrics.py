"""Metrics of the configuration, from episodes to the store and whoever reads it."""

from pathlib import Path

from soulsgui.config.metrics import read_metrics
from soulsgui.telemetry.recorder import as_messages
from soulsgui.telemetry.sinks.records import Cursor, read_records
from soulsgui.telemetry.store import query_history
from soulsgui.wire.control import HistoryQueryParams
from soulsgui.wire.keys import EntryId
from tests.telemetry.helpers import RUN_ID, arrivals, episode, recorder_of

_METRICS = read_metrics({"wins": {"key": "boss_hp", "compare": "<=", "window": 2}, "hp": "boss_hp"})


def _values(path: Path, metric: str, client: str = "") -> list[float]:
    return query_history(path, HistoryQueryParams(metric=metric, client=client)).value


def test_they_are_kept_averaged_over_a_restart_and_told(path: Path) -> None:
    with recorder_of(path, metrics=_METRICS) as recorder:
        played = [episode(metrics={"wins": 1.0, "hp": 0.0, "unknown": 5.0}), episode(metrics={"wins": 1e31})]
        first = recorder.record([], arrivals(*played), EntryId(1, 1), 1.0)
        recorder.record([], arrivals(episode(metrics={"wins": 0.0}), client="b"), EntryId(1, 1), 2.0)
    with recorder_of(path, metrics=_METRICS) as recorder:
        recorder.record([], arrivals(episode(metrics={"wins": 0.0}), first=3), EntryId(1, 1), 3.0)
        (message,) = recorder.rows_after(0)
    assert _values(path, "wins") == [1.0, 0.0, 0.0]
    assert _values(path, "wins_mean") == [1.0, 0.5, 0.0]
    assert _values(path, "wins", "b") == [0.0]
    assert _values(path, "unknown") == []
    assert message.values["wins"] == [1.0, None, 0.0, 0.0]
    (told,) = as_messages(RUN_ID, first)
    assert told.values == {"hp": [0.0, None], "wins": [1.0, None], "wins_mean": [1.0, None]}
    assert {"wins", "wins_mean", "hp"} <= set(query_history(path, HistoryQueryParams()).metrics)
    records, _ = read_records(path, Cursor())
    assert records[0].values["wins_mean"] == 1.0
    assert "wins" not in records[1].values


def test_many_are_summed_up_in_blocks_as_other_curves_are(path: Path) -> None:
    metrics = read_metrics({"half": "x"})
    with recorder_of(path, metrics=metrics) as recorder:
        many = arrivals(*(episode(metrics={"half": n / 2}) for n in range(20_000)))
        for first in range(0, len(many), 5000):
            recorder.record([], many[first : first + 5000], EntryId(1, 1), 1.0)
    history = query_history(path, HistoryQueryParams(metric="half", points=10))
    assert sum(history.count) == 20_000
    assert (min(history.low), max(history.high)) == (0.0, 9999.5)
