import threading
from pathlib import Path
from unittest.mock import Mock

import pytest

from soulsgui.config.paths import RunFolder
from soulsgui.telemetry.sinks import process
from soulsgui.wire.control import Event


def test_events_that_can_not_be_read_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert process.events_of(tmp_path) == [], "no runner is there"
    client = Mock()
    monkeypatch.setattr(process, "ControlFile", Mock())
    monkeypatch.setattr(process, "ApiClient", Mock(return_value=client))
    client.command.return_value = {"events": [{"number": "of a runner of another version"}]}
    assert process.events_of(tmp_path) == []
    event = Event(number=3, time=1.0, level="info", what="x")
    client.command.return_value = {"events": [event.model_dump()]}
    assert process.events_of(tmp_path, 2) == [event]


def test_a_cursor_that_no_sink_wrote_is_not_read_whole(run: RunFolder) -> None:
    run.sinks.mkdir()
    with (run.sinks / "tensorboard.json").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(OSError, match="too large"):
        process.SinkProcess("tensorboard", run, Mock(), run.root, threading.Event())
