"""The curve of this machine: every episode once, numbered without gaps, whatever its process does."""

import pytest

from soulsgui.runner.join.returns import OwnReturns
from soulsgui.runner.refusal import Refused
from soulsgui.wire.control import HistoryQueryParams
from soulsgui.wire.messages.base import Instance
from soulsgui.wire.messages.heartbeat import Heartbeat
from soulsgui.wire.messages.owner import ClientReport, OwnEpisode


def _report(*numbers: int, pid: int = 1, run: str = "a", of_run: str = "", steps: int = 0) -> ClientReport:
    episodes = [
        OwnEpisode(
            number=number,
            run_id=of_run or run,
            time=100.0 + number,
            env_steps=10 * (number + 1),
            total_return=float(number),
            length=10,
            model_id=1,
        )
        for number in numbers
    ]
    beat = Heartbeat(client="c", instance=Instance(pid=pid), counter=1, run_id=run)
    return ClientReport(beat=beat, env_steps=steps, episodes=episodes)


def _asked(**changed: object) -> HistoryQueryParams:
    return HistoryQueryParams.model_validate(changed)


def test_episodes_of_overlapping_reports_are_taken_once() -> None:
    returns = OwnReturns("c")
    first = returns.take(_report(0, 1, 2))
    assert first is not None
    assert (first.row, first.total_return, first.env_steps) == ([1, 2, 3], [0, 1, 2], [10, 20, 30])
    assert first.mean_return == [0, 0.5, 1]
    second = returns.take(_report(1, 2, 3))
    assert second is not None
    assert second.row == [4]
    assert returns.take(_report(1, 2, 3)) is None
    assert returns.episodes == 4


def test_rows_have_no_gap_where_episodes_were_missed() -> None:
    returns = OwnReturns("c")
    returns.take(_report(0))
    rows = returns.take(_report(7, 8))
    assert rows is not None
    assert rows.row == [2, 3]


def test_another_process_goes_on_with_the_curve() -> None:
    returns = OwnReturns("c")
    returns.take(_report(0, 1, steps=25))
    rows = returns.take(_report(0, pid=2, steps=12))
    assert rows is not None
    assert (rows.row, rows.env_steps) == ([3], [25 + 10])
    assert returns.env_steps == 25 + 12


def test_another_run_begins_another_curve() -> None:
    returns = OwnReturns("c")
    returns.take(_report(0, 1, steps=25))
    assert returns.take(_report(2, run="b", of_run="a", steps=5)) is None
    rows = returns.take(_report(2, 3, run="b", steps=9))
    assert rows is not None
    assert (rows.run_id, rows.row, rows.total_return) == ("b", [1], [3])
    assert (returns.run_id, returns.episodes, returns.env_steps) == ("b", 1, 9)


def test_a_process_that_plays_for_nothing_yet_keeps_the_curve() -> None:
    returns = OwnReturns("c")
    returns.take(_report(0, steps=10))
    assert returns.take(_report(pid=2, run="")) is None
    assert (returns.run_id, returns.episodes, returns.env_steps) == ("a", 1, 10)


def test_history_ends_where_the_live_rows_go_on() -> None:
    returns = OwnReturns("c", kept=3)
    returns.take(_report(*range(5)))
    history = returns.history(_asked())
    assert (history.run_id, history.last_row) == ("a", 5)
    assert (history.row, history.value) == ([3, 4, 5], [2, 3, 4])
    assert history.attempt == [1, 1, 1]
    live = returns.take(_report(5))
    assert live is not None
    assert live.row == [6]


@pytest.mark.parametrize(
    ("asked", "rows"),
    [
        ({"points": 4}, [1, 3, 5]),
        ({"x": "episode", "start": 2, "end": 3}, [2, 3]),
        ({"x": "env_step", "start": 31}, [4, 5]),
        ({"x": "time", "end": 101.5}, [1, 2]),
        ({"client": "c", "metric": "length"}, [1, 2, 3, 4, 5]),
        ({"client": "somebody else"}, []),
        ({"run": "a", "metric": "mean_return"}, [1, 2, 3, 4, 5]),
    ],
)
def test_history_answers_what_was_asked(asked: dict[str, object], rows: list[int]) -> None:
    returns = OwnReturns("c")
    returns.take(_report(*range(5)))
    assert returns.history(_asked(**asked)).row == rows


@pytest.mark.parametrize("asked", [{"run": "b"}, {"metric": "loss"}])
def test_history_of_what_is_not_here_is_refused(asked: dict[str, object]) -> None:
    returns = OwnReturns("c")
    returns.take(_report(0))
    with pytest.raises(Refused):
        returns.history(_asked(**asked))
