from pathlib import Path

from soulsgui.telemetry.sinks.records import Cursor, read_records
from soulsgui.telemetry.store import query_history
from soulsgui.wire.control import HistoryQueryParams
from soulsgui.wire.keys import EntryId
from soulsgui.wire.messages.metrics import ResourceRow
from tests.telemetry.helpers import RUN_ID, recorder_of


def _row(time: float, value: float) -> ResourceRow:
    place = {"attempt": 1, "update": 2, "env_steps": 30, "episodes": 4, "model_id": 5}
    return ResourceRow(run_id=RUN_ID, time=time, values={"resource_trainer_cpu_percent": value}, **place)


def test_what_was_used_is_a_curve_of_the_run(path: Path) -> None:
    with recorder_of(path) as recorder:
        recorder.record([_row(10.0, 50.0), _row(20.0, 70.0), _row(20.0, 70.0)], [], EntryId(1, 1), 0.0)
        first, cursor = read_records(path, Cursor())
        recorder.record([_row(30.0, 90.0)], [], EntryId(1, 2), 0.0)
    history = query_history(path, HistoryQueryParams(metric="resource_trainer_cpu_percent", x="time"))
    assert (history.time, history.value) == ([10.0, 20.0, 30.0], [50.0, 70.0, 90.0])
    assert history.env_steps == [30, 30, 30]
    assert "resource_trainer_cpu_percent" in history.metrics
    assert [(one.kind, one.env_steps, len(one.values)) for one in first] == [("resources", 30, 1)] * 2
    second, _ = read_records(path, cursor)
    assert [one.values["resource_trainer_cpu_percent"] for one in second] == [90.0]
