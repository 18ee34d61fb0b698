from pathlib import Path
from typing import Any

import pytest

from soulsgui.runner.events import EventLog
from soulsgui.runner.server.disk_guard import DiskGuard, Level, level_of
from soulsgui.wire.node_commands import NodeCommand

GB = 10**9


def test_a_level_is_left_a_little_above_where_it_is_entered() -> None:
    expected: dict[Level, dict[float, Level]] = {
        "": {9: "", 5.1: "", 4.9: "low", 0.9: "full"},
        "low": {6.2: "low", 6.3: "", 1.1: "low", 0.9: "full"},
        "full": {1.2: "full", 1.3: "low", 7: ""},
    }
    for before, levels in expected.items():
        assert {free: level_of(int(free * GB), GB, GB, before) for free in levels} == levels
    assert level_of(8 * GB, GB, 3 * GB, "") == "low"  # three checkpoints would not fit
    assert [level_of(mb * 10**6, 25 * 10**6, 10**6, "") for mb in (150, 100, 20)] == ["", "low", "full"]


class FakeBus:
    def __init__(self, *refuses: str) -> None:
        self.asked: list[NodeCommand] = []
        self._refuses = refuses

    async def tell(self, _node: str, command: NodeCommand, _timeout_s: float) -> bool:
        self.asked.append(command)
        return command.command not in self._refuses


@pytest.mark.parametrize("run_id", ["", "run-1"])
async def test_the_run_is_saved_and_rests_while_the_disk_is_full_and_it_is_told_once(
    tmp_path: Path, run_id: str
) -> None:
    bus: Any = FakeBus()
    events = EventLog(tmp_path / "events.jsonl", lambda _: None)
    free = [50 * GB]
    guard = DiskGuard(bus, events, tmp_path, lambda _: free[0], lambda: GB, lambda: run_id)
    for gb in (50, 4, 3, 0.5, 0.4, 1.1, 2, 50):
        free[0] = int(gb * GB)
        await guard.look(trainer_runs=bool(run_id))
    asked = [command.command for command in bus.asked]
    assert asked == (["wait", "save", "wait", "wait"] if run_id else [])
    assert [event.level for event in events.newest(10)] == ["warning", "error", "warning", "info"]
    assert {event.topic for event in events.newest(10)[:3]} == {"disk_low"}, "alerts know them by it"
    assert ("rests" in events.newest(10)[1].what) == bool(run_id)
    if run_id:
        assert "500.0 MB" in bus.asked[0].args["why"]


@pytest.mark.parametrize(
    ("refuses", "said"),
    [
        ((), "The run is saved and rests."),
        (("save",), "The run is not saved yet (see: soulsgui logs trainer) and rests."),
        (("save", "wait"), "The run is not saved yet (see: soulsgui logs trainer) and does not rest."),
    ],
)
async def test_what_came_of_a_full_disk_is_told(tmp_path: Path, refuses: tuple[str, ...], said: str) -> None:
    bus: Any = FakeBus(*refuses)
    events = EventLog(tmp_path / "events.jsonl", lambda _: None)
    guard = DiskGuard(bus, events, tmp_path, lambda _: 0, lambda: GB, lambda: "run-1")
    await guard.look(trainer_runs=True)
    assert events.newest(1)[0].what.endswith(said)
