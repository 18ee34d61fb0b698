"""Axes, means and verdicts of a run, kept over restarts at any moment."""

import random
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest

from soulsgui.telemetry.intake import Arrival
from soulsgui.telemetry.recorder import Recorder, TrainerRow, as_messages
from soulsgui.telemetry.store import EpisodeRecord, query_history
from soulsgui.wire.control import HistoryQueryParams
from soulsgui.wire.keys import EntryId
from soulsgui.wire.messages.metrics import UpdateRow
from soulsgui.wire.messages.node import Verdict
from tests.telemetry.helpers import RUN_ID, arrivals, attempt_row, episode, recorder_of, update_row

_CURSOR = EntryId(1, 0)
_recorder = partial(recorder_of, window=3)


@contextmanager
def _judging(path: Path, judged_by: str) -> Iterator[Recorder]:
    with recorder_of(path, window=3, goal=9.0) as recorder:
        recorder.judged_by = judged_by
        yield recorder


def _store(
    recorder: Recorder, given: Sequence[Arrival], rows: Sequence[TrainerRow] = ()
) -> list[EpisodeRecord]:
    return recorder.record(rows, given, _CURSOR, 1000.0)


def test_rows_carry_their_place_on_the_curve_and_entries_read_again_are_left_out(path: Path) -> None:
    with _recorder(path.with_name("places")) as recorder:
        first = _store(recorder, arrivals(episode(1.0, 10), episode(2.0, 5)))
        second = _store(recorder, arrivals(episode(6.0, 1), client="b"))
    places = [(one.row, one.episode, one.env_steps, one.mean_return) for one in [*first, *second]]
    assert places == [(1, 1, 10, 1.0), (2, 2, 15, 1.5), (3, 3, 16, 3.0)]
    given = arrivals(*(episode(float(n)) for n in range(5)))
    with _recorder(path) as recorder:
        _store(recorder, given[:3])
        records = _store(recorder, given)
        assert [record.total_return for record in records] == [3.0, 4.0]
        assert recorder.last_row == 5
    # An older session is none read again: the server's clock may have been set back between the two.
    older = Arrival("a", EntryId(500, 1), episode(5.0))
    with _recorder(path) as recorder:
        assert [record.total_return for record in _store(recorder, [*given, older])] == [5.0]
        assert _store(recorder, [older]) == []
    largest = [Arrival(client, EntryId(2**64 - 1, 2**64 - 1), episode()) for client in ("a", "b")]
    for left in (2, 0):  # of two clients
        with _recorder(path) as recorder:
            assert len(_store(recorder, largest)) == left


def test_a_resume_carries_what_it_did_not_overwrite_into_the_mean(path: Path) -> None:
    with _recorder(path) as recorder:
        rows = [attempt_row(1), update_row(1), update_row(2)]
        _store(recorder, arrivals(*(episode(float(n)) for n in (1, 2, 90, 90))), rows)
        _store(recorder, [], [attempt_row(2, env_steps=20, episodes=2, update=1)])
        assert (recorder.attempt, recorder.env_steps, recorder.episodes) == (2, 20, 2)
        assert recorder.mean_return == 1.5
        _store(recorder, arrivals(episode(6.0, attempt=2), first=5))
        assert recorder.mean_return == 3.0
    with _recorder(path) as recorder:
        assert recorder.mean_return == 3.0
    # What a resume overwrote does not reach the goal.
    path = path.with_name("goal")
    for attempt, first, count in ((1, 1, 2), (2, 3, 1), (2, 4, 1), (2, 5, 1)):
        with _recorder(path, goal=50.0) as recorder:
            given = arrivals(*(episode(90.0, attempt=attempt) for _ in range(count)), first=first)
            _store(recorder, given, [attempt_row(attempt)])
            assert recorder.verdict.reached is (first == 5)


@pytest.mark.parametrize(
    ("updates", "steps", "place"),
    [
        ((1, 2), 18, (40, 4)),  # it ended behind the last update, as after a stop
        ((1, 2), 45, (45, 4)),  # what the trainer had of unfinished episodes counts, too
        ((1, 2, 3), 18, (18, 1)),  # an update was lost: a kill, or an older checkpoint
        ((), 0, (0, 0)),  # there was no checkpoint
    ],
)
def test_a_resume_that_loses_no_update_goes_on_behind_the_last_episode(
    path: Path, updates: tuple[int, ...], steps: int, place: tuple[int, int]
) -> None:
    resumed = attempt_row(2, env_steps=steps, episodes=int(steps > 0), update=2 if updates else 0)
    with _recorder(path) as recorder:
        rows = [attempt_row(1), *(update_row(n) for n in updates)]
        _store(recorder, arrivals(*(episode(1.0, 10) for _ in range(4))), rows)
        _store(recorder, [], [resumed, resumed])
        assert (recorder.env_steps, recorder.episodes) == place
    with _recorder(path) as recorder:
        assert (recorder.env_steps, recorder.episodes) == place
        _store(recorder, arrivals(episode(1.0, 10, attempt=2), first=5))
        assert recorder.episodes == place[1] + 1
    history = query_history(path, HistoryQueryParams())
    assert history.overwritten == [n > place[1] for n in range(1, 5)] + [False]


def test_a_reached_goal_is_known_after_a_restart_and_open_again_under_another_goal_or_window(
    path: Path,
) -> None:
    returns = [(9.0, 7), (0.0, 2), (5.0, 3), (6.0, 4)]
    with _recorder(path, window=1, goal=5.0) as recorder:
        _store(recorder, arrivals(*(episode(value, model_id=model) for value, model in returns)))
    with _recorder(path, window=1, goal=5.0) as recorder:
        assert recorder.mean_return == 6.0
        assert recorder.verdict == Verdict(best_model_id=7, best_score=9.0, reached=True, reached_with=9.0)
    with _recorder(path, window=1, goal=10.0) as recorder:
        assert recorder.verdict == Verdict(best_model_id=7, best_score=9.0, reached=False)
    with _recorder(path, window=2) as recorder:
        assert (recorder.verdict.best_model_id, recorder.verdict.best_score) == (4, 5.5), "ranked anew"


def test_restarts_at_any_moment_change_nothing(path: Path) -> None:
    rng = random.Random(3)
    played = (
        episode(rng.gauss(50, 30), rng.randint(1, 90), attempt=1 + n // 40, model_id=n // 7)
        for n in range(120)
    )
    given = arrivals(*played)
    rows: dict[int, list[TrainerRow]] = {
        0: [attempt_row(1)],
        40: [attempt_row(2, env_steps=700, episodes=22, update=3)],
        80: [attempt_row(3, env_steps=400, episodes=12, update=2)],
    }

    def play(store: Path, restarts: bool) -> tuple[list[object], Verdict, float | None]:
        recorder = Recorder(store, RUN_ID, 10, 60.0)
        done: list[object] = []
        for n, arrival in enumerate(given):
            if restarts and rng.random() < 0.3:
                recorder.close()
                recorder = Recorder(store, RUN_ID, 10, 60.0)
            done += _store(recorder, [arrival], rows.get(n, []))
        result = done, recorder.verdict, recorder.mean_return
        recorder.close()
        return result

    broken = play(path.with_name("broken.sqlite"), restarts=True)
    assert broken == play(path.with_name("whole.sqlite"), restarts=False)


def test_what_could_not_be_stored_leaves_no_trace(path: Path) -> None:
    """A real full file: pages are limited, as a full disk limits them."""
    with _recorder(path) as recorder:
        _store(recorder, arrivals(episode(1.0, 10)), [attempt_row(1), update_row(1, loss=1.0)])
        database: sqlite3.Connection = recorder._store.db
        pages = database.execute("PRAGMA page_count").fetchone()[0]
        database.execute(f"PRAGMA max_page_count = {pages}")
        many = arrivals(*(episode(float(n)) for n in range(2000)), client="b")
        with pytest.raises(sqlite3.OperationalError, match="full"):
            _store(recorder, many, [update_row(2, loss=0.5, other=1.0)])
        assert (recorder.last_row, recorder.mean_return, recorder.env_steps) == (1, 1.0, 10)
        database.execute("PRAGMA max_page_count = 1000000")
        records = _store(recorder, many, [update_row(2, loss=0.5, other=1.0)])
        assert [record.row for record in records[:2]] == [2, 3]
        assert len(records) == 2000
    history = query_history(path, HistoryQueryParams(metric="loss"))
    assert history.value == [1.0, 0.5]
    assert query_history(path, HistoryQueryParams()).last_row == 2001


def test_messages_for_the_windows_are_bounded_and_whole(path: Path) -> None:
    with _recorder(path) as recorder:
        records = _store(recorder, arrivals(*(episode(float(n)) for n in range(1234))))
        messages = list(as_messages(RUN_ID, records))
        assert [row for message in messages for row in message.row] == list(range(1, 1235))
        assert max(len(message.row) for message in messages) <= 500
        assert list(recorder.rows_after(0)) == messages
        (last,) = recorder.rows_after(1200)
        assert last.row == list(range(1201, 1235))


def _evaluation(update: int, score: float, attempt: int = 1) -> UpdateRow:
    row = update_row(update, attempt, env_steps=update * 10, evaluation_return=score)
    return row.model_copy(update={"kind": "evaluation"})


def test_models_are_ranked_by_their_evaluation_where_that_is_chosen(path: Path) -> None:
    played = arrivals(*(episode(100.0, model_id=1) for _ in range(3)))
    with _recorder(path) as recorder:
        recorder.by_evaluation = True
        _store(recorder, played)
        assert recorder.verdict == Verdict(best_by="evaluation")
        _store(recorder, [], [_evaluation(5, 7.0), _evaluation(10, 9.0), _evaluation(15, 9.0)])
        assert recorder.verdict == Verdict(best_model_id=10, best_score=9.0, best_by="evaluation")
    with _recorder(path) as recorder:
        assert recorder.verdict == Verdict(best_model_id=1, best_score=100.0)
        recorder.by_evaluation = True
        assert recorder.verdict == Verdict(best_model_id=10, best_score=9.0, best_by="evaluation")
        _store(recorder, [], [_evaluation(20, 9.5)])
        assert recorder.verdict == Verdict(best_model_id=20, best_score=9.5, best_by="evaluation")
    path = path.with_name("newest")  # the newest one that nothing overwrote is told
    for rows, newest in (
        ([], None),
        ([attempt_row(1), _evaluation(5, 9.0), _evaluation(10, 4.0)], 4.0),
        ([attempt_row(2, update=7)], 9.0),
        ([_evaluation(9, 6.0, attempt=2), _evaluation(6, 1.0)], 6.0),
        ([attempt_row(3)], None),
    ):
        with _recorder(path) as recorder:
            _store(recorder, [], rows)
            assert recorder.evaluation_return == newest


def test_an_evaluation_reaches_the_goal_where_that_is_chosen(path: Path) -> None:
    good = arrivals(*(episode(100.0, model_id=1) for _ in range(3)))
    with _judging(path, "evaluation") as recorder:
        rows = [attempt_row(2), _evaluation(5, 9.5, attempt=1), _evaluation(5, 8.5, attempt=2)]
        _store(recorder, good, rows)
        assert not recorder.verdict.reached, "training does not count, nor what was played before"
        _store(recorder, [], [_evaluation(10, 9.25, attempt=2), _evaluation(15, 3.0, attempt=2)])
        assert recorder.verdict.reached_with == 9.25
    with _recorder(path, goal=9.0) as recorder:
        assert recorder.verdict.reached_with == 9.25
    with _judging(path.with_name("other"), "evaluation") as recorder:
        _store(recorder, good)
        assert not recorder.verdict.reached
        recorder.judged_by = "training"  # nobody can evaluate
        _store(recorder, arrivals(episode(100.0), client="b"), [_evaluation(5, 1.0)])
        assert recorder.verdict.reached_with == 100.0


def _confirmation(update: int, score: float, confirms: int | None) -> UpdateRow:
    return _evaluation(update, score).model_copy(update={"confirms": confirms})


def test_a_goal_of_the_training_is_reached_when_greedy_episodes_confirm_it(path: Path) -> None:
    with _judging(path, "both") as recorder:
        _store(recorder, arrivals(*(episode(10.0) for _ in range(5))), [attempt_row(1)])
        assert (recorder.verdict.reached, recorder.verdict.to_confirm) == (False, 3)
        # What nobody asked for confirms nothing: a regular evaluation, or what a former claim was answered.
        _store(recorder, [], [_confirmation(1, 50.0, None), _confirmation(2, 50.0, 2)])
        assert recorder.verdict.to_confirm == 3
        _store(recorder, [], [_confirmation(3, 8.9, 3)])
        assert (recorder.verdict.reached, recorder.verdict.to_confirm) == (False, None)
        _store(recorder, arrivals(*(episode(11.0, model_id=4) for _ in range(3)), first=6))
        assert recorder.verdict.to_confirm == 8
        _store(recorder, [], [_confirmation(4, 9.0, 8)])
        assert (recorder.verdict.reached_with, recorder.verdict.to_confirm) == (11.0, None)


def test_a_claim_stands_over_kills_until_it_is_answered_and_then_takes_other_weights(path: Path) -> None:
    for row, claim in ((1, None), (2, None), (3, 3), (4, 4)):
        with _judging(path, "both") as recorder:
            _store(recorder, arrivals(episode(10.0), first=row))
            assert recorder.verdict.to_confirm == claim
            if row == 4:
                _store(recorder, [], [_confirmation(3, 9.0, row)])
                assert recorder.verdict.reached_with == 10.0
    path = path.with_name("refuted")
    with _judging(path, "both") as recorder:
        _store(recorder, arrivals(*(episode(10.0) for _ in range(3))), [attempt_row(1)])
        _store(recorder, [], [_confirmation(3, 8.9, 3)])
    later = arrivals(*(episode(10.0, model_id=model_id) for model_id in (4, 4, 3, 4)), first=4)
    for given, claims in zip(later, (None, None, None, 7), strict=True):
        with _judging(path, "both") as recorder:
            _store(recorder, [given])
            assert recorder.verdict.to_confirm == claims


def test_evaluations_are_a_curve_of_their_own_beside_the_updates(path: Path) -> None:
    """Evaluations take their time: they come when updates of later on are stored already."""
    rows = [update_row(5, loss=1.0), update_row(8, loss=2.0), _evaluation(5, 3.0), _evaluation(5, 4.0)]
    with _recorder(path) as recorder:
        _store(recorder, [], rows)
    found = query_history(path, HistoryQueryParams(metric="evaluation_return"))
    assert (found.row, found.value, found.env_steps, found.last_update) == ([5], [3.0], [50], (1, 5))
    assert {"loss", "evaluation_return"} <= set(found.metrics)
    assert query_history(path, HistoryQueryParams(metric="loss")).last_update == (1, 8)
    unknown = query_history(path, HistoryQueryParams(metric="evaluation_std"))
    assert (unknown.value, unknown.last_update) == ([], (1, 5))
    with _recorder(path) as recorder:
        _store(recorder, [], [_confirmation(5, 2.5, 7), _evaluation(5, 8.0)])
        assert recorder.evaluation_return == 2.5
    found = query_history(path, HistoryQueryParams(metric="evaluation_return"))
    assert found.value == [2.5], "what answers a claim takes the place of the shorter one"
    with closing(sqlite3.connect(path)) as db:  # of before there were evaluations
        db.executescript("DROP TABLE evaluations; DROP TABLE evaluation_values;")
    assert query_history(path, HistoryQueryParams(metric="loss")).value == [1.0, 2.0]
    assert query_history(path, HistoryQueryParams(metric="evaluation_return")).value == []
    with _recorder(path) as recorder:
        _store(recorder, [], [_evaluation(9, 7.0)])
    assert query_history(path, HistoryQueryParams(metric="evaluation_return")).value == [7.0]
