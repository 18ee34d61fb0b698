from pathlib import Path
from unittest.mock import Mock

import pytest

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
