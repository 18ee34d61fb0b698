import math
from typing import Any

import pytest
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from soulsgui.gui.plotting.live import LiveCurve, leaves_gap
from soulsgui.gui.plotting.rows import Axis
from soulsgui.wire.control import History
from tests.gui.fake_feed import LIVE, LOST, FakeFeed, refusal
from tests.gui.plotting.curves import RUN, attempt_row, drawn, episodes, history, update
from tests.gui.reading import shown


class Store:
    def __init__(self) -> None:
        self.episodes = 0
        self.updates = 0

    def answer(self, params: dict[str, object]) -> History:
        if params.get("metric", "return") == "return":
            return history(range(1, self.episodes + 1))
        known = {"metric": "loss", "last_row": 0, "last_update": (min(self.updates, 1), self.updates)}
        return history(range(1, self.updates + 1)).model_copy(
            update=known | {"metrics": ["return", "length", "loss"]}
        )


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def feed(fake: FakeFeed, store: Store) -> FakeFeed:
    fake.answers["history.query"] = store.answer
    return fake


@pytest.fixture
def curve(qtbot: QtBot, feed: FakeFeed) -> LiveCurve:
    return LiveCurve(feed, shown(qtbot, QWidget()))


@pytest.fixture
def complete(qtbot: QtBot, curve: LiveCurve) -> LiveCurve:
    curve.follow(RUN, "return")
    qtbot.waitUntil(lambda: curve.complete)
    return curve


def values(curve: LiveCurve) -> list[int]:
    return [round(y) for _, y in drawn(curve.series)]


def queries(feed: FakeFeed) -> int:
    return len(feed.sent_of("history.query"))


def hide_or_show(curve: LiveCurve) -> None:
    widget = curve.parent()
    assert isinstance(widget, QWidget)
    widget.setVisible(widget.isHidden())


def test_live_rows_go_on_where_the_history_ends_and_a_missing_one_makes_it_ask_again_once(
    qtbot: QtBot, curve: LiveCurve, feed: FakeFeed, store: Store
) -> None:
    store.episodes = 5
    curve.follow(RUN, "return")
    curve.take([episodes([5, 6])])
    qtbot.waitUntil(lambda: curve.complete)
    curve.take([episodes([7])])
    curve.take([episodes([6, 7, 8]), episodes([9], run="another")])
    assert values(curve) == list(range(1, 9))
    store.episodes = 14
    curve.take([episodes([13, 14])])
    assert not curve.complete
    curve.take([episodes([15])])
    qtbot.waitUntil(lambda: curve.complete)
    assert values(curve) == list(range(1, 16))
    assert queries(feed) == 2


def test_rows_before_a_refusal_stay(qtbot: QtBot, curve: LiveCurve, feed: FakeFeed, store: Store) -> None:
    feed.answers["history.query"] = refusal("The store is busy.")
    with qtbot.waitSignal(curve.failed):
        curve.follow(RUN, "return")
    curve.take([episodes([1, 2])])
    store.episodes = 2
    feed.answers["history.query"] = store.answer
    qtbot.waitUntil(lambda: curve.complete)
    assert values(curve) == [1, 2]


def test_updates_that_were_not_stored_yet_are_asked_for_until_the_history_meets_the_live_rows(
    qtbot: QtBot, curve: LiveCurve, feed: FakeFeed, store: Store
) -> None:
    store.updates = 3
    curve.follow(RUN, "loss")
    qtbot.waitUntil(lambda: curve.is_loaded)
    # Updates 4 and 5 were sent before this window listened, and are stored later.
    curve.take([update(6, loss=6.0)])
    assert not curve.complete
    store.updates = 5
    curve.take([update(7, loss=7.0)])
    qtbot.waitUntil(lambda: curve.complete)
    assert values(curve) == [1, 2, 3, 4, 5, 6, 7]
    asked = queries(feed)
    curve.take([update(8, loss=8.0)])
    assert curve.complete
    assert queries(feed) == asked


def test_an_update_sent_before_its_metric_was_chosen_and_stored_after_it_was_asked_for_comes_without_another(
    qtbot: QtBot, complete: LiveCurve, store: Store
) -> None:
    store.updates = 3
    complete.take([update(4, loss=4.0)])
    complete.follow(RUN, "loss")
    qtbot.waitUntil(lambda: complete.is_loaded)
    assert values(complete) == [1, 2, 3]
    store.updates = 4
    qtbot.waitUntil(lambda: values(complete) == [1, 2, 3, 4])


def test_what_may_be_missing_between_stored_and_live_updates() -> None:
    for stored, first, previous, gap in (
        ((1, 5), (1, 6), 5, False),
        ((1, 5), (1, 905), 5, False),
        ((1, 5), (1, 4), 3, False),
        ((1, 5), (1, 7), 6, True),
        ((1, 5), (2, 3), 2, True),
        ((2, 3), (2, 3), 2, False),
        ((0, 0), (1, 1), 0, True),
    ):
        row = update(first[1], attempt=first[0]).model_copy(update={"previous": previous})
        assert leaves_gap(stored, row) is gap


def test_an_attempt_that_is_not_stored_yet_is_known(qtbot: QtBot, complete: LiveCurve, store: Store) -> None:
    store.episodes = 10
    complete.take([episodes(range(1, 11))])
    complete.take([attempt_row(2, 6), episodes([11, 12], attempt=2, episode=[7, 8])])
    for renewed in (False, True):
        if renewed:
            complete.renew()
            qtbot.waitUntil(lambda: complete.complete)
        assert [x for x, _ in drawn(complete.series, overwritten=True)] == [7, 8, 9, 10]


def test_rows_wait_while_nobody_looks_and_many_are_asked_for_again(
    qtbot: QtBot, complete: LiveCurve, feed: FakeFeed, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("soulsgui.gui.plotting.live._MOST_ASIDE", 5)
    hide_or_show(complete)
    complete.take([episodes([1]), episodes([2, 3])])
    assert values(complete) == []
    hide_or_show(complete)
    complete.wake()
    assert values(complete) == [1, 2, 3]
    assert queries(feed) == 1
    hide_or_show(complete)
    for number in range(4, 21):
        complete.take([episodes([number])])
    store.episodes = 20
    hide_or_show(complete)
    complete.wake()
    qtbot.waitUntil(lambda: complete.complete)
    assert values(complete) == list(range(1, 21))


def test_an_older_answer_is_not_drawn(qtbot: QtBot, curve: LiveCurve, feed: FakeFeed, store: Store) -> None:
    store.episodes, store.updates = 3, 2
    del feed.answers["history.query"]
    curve.follow(RUN, "return")
    qtbot.waitUntil(lambda: queries(feed) == 1)
    curve.follow(RUN, "loss")
    qtbot.waitUntil(lambda: queries(feed) == 2)
    late, now = feed.sent_of("history.query")
    late.call.answer(store.answer(late.params).model_dump())
    assert values(curve) == []
    now.call.answer(store.answer(now.params).model_dump())
    assert values(curve) == [1, 2]
    assert "loss" in curve.metrics


def test_without_connection_it_waits_and_goes_on_and_learns_the_metrics_of_a_run_from_its_updates(
    qtbot: QtBot, curve: LiveCurve, feed: FakeFeed, store: Store
) -> None:
    store.episodes = 2
    feed.connect_as(LOST)
    curve.follow(RUN, "return")
    qtbot.wait(30)
    assert queries(feed) == 0
    feed.connect_as(LIVE)
    curve.go_on()
    qtbot.waitUntil(lambda: curve.complete)
    assert values(curve) == [1, 2]
    with qtbot.waitSignal(curve.loaded):
        curve.take([update(1, entropy=0.5)])
    assert "entropy" in curve.metrics


def bucketed(params: dict[str, Any]) -> History:
    """The run of 10,000 episodes with the return 1 to 10,000, in at most 100 buckets of any part of it."""
    first = max(math.ceil(params.get("start", 1)), 1)
    last = min(math.floor(params.get("end", 10_000)), 10_000)
    count = -(-(last - first + 1) // 100)
    ends = [min(n + count - 1, last) for n in range(first, last + 1, count)]
    found = history(ends)
    lows = [float(n) for n in range(first, last + 1, count)]
    return found.model_copy(update={"low": lows, "count": [count] * len(ends), "last_row": 10_000})


@pytest.fixture
def long(qtbot: QtBot, feed: FakeFeed, curve: LiveCurve) -> LiveCurve:
    feed.answers["history.query"] = bucketed
    curve.follow(RUN, "return")
    qtbot.waitUntil(lambda: curve.complete)
    return curve


def test_what_is_in_view_is_asked_for_to_the_last_row(qtbot: QtBot, long: LiveCurve, feed: FakeFeed) -> None:
    assert len(long.series) == 10_000
    assert drawn(long.series)[0][1] == 1.0, "the first episode is there"
    assert not long.look_at(0, 10_100)
    for left, right in ((2000, 2400), (2000, 2040)):
        assert long.look_at(left, right)
        qtbot.waitUntil(lambda left=left, right=right: not long.look_at(left, right))
    assert {y for x, y in drawn(long.series) if 2000 <= x <= 2040} == set(range(2000, 2041))
    sent = [one.params for one in feed.sent_of("history.query")]
    assert [(one.get("start"), one.get("end")) for one in sent] == [(None, None), (1800, 2600), (1980, 2060)]
    long.take([episodes([10_001])])
    assert {y for x, y in drawn(long.series) if x > 10_000} == {10_001}


def test_an_answer_for_another_view_is_not_drawn(qtbot: QtBot, long: LiveCurve, feed: FakeFeed) -> None:
    del feed.answers["history.query"]
    assert long.look_at(2000, 2040)
    qtbot.waitUntil(lambda: queries(feed) == 2)
    assert long.finer.waiting
    long.follow(RUN, "length")
    late = feed.sent_of("history.query")[-1]
    assert not long.finer.waiting
    late.call.answer(bucketed(late.params).model_dump())
    assert values(long) == []


@pytest.mark.parametrize("answered", [True, False])
def test_a_run_in_buckets_is_asked_for_again_along_another_axis(
    qtbot: QtBot, curve: LiveCurve, feed: FakeFeed, answered: bool
) -> None:
    """Also while the answer along the one before is on its way, which is not drawn then."""
    if answered:
        feed.answers["history.query"] = bucketed
    else:
        del feed.answers["history.query"]
    curve.follow(RUN, "return")
    qtbot.waitUntil(lambda: curve.complete if answered else queries(feed) == 1)
    curve.show_along(Axis.TIME)
    if not answered:
        late = feed.sent_of("history.query")[0]
        late.call.answer(bucketed(late.params).model_dump())
        assert not curve.is_loaded
    qtbot.waitUntil(lambda: queries(feed) == 2)
    assert feed.sent_of("history.query")[-1].params == {"run": RUN, "x": "time", "missing_ok": True}


def test_many_live_rows_are_asked_for_again_in_buckets(
    qtbot: QtBot, complete: LiveCurve, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("soulsgui.gui.plotting.live._MOST_LIVE", 5)
    store.episodes = 6
    complete.take([episodes(range(1, 7))])
    qtbot.waitUntil(lambda: complete.complete and complete.series.live_rows == 0)
    complete.take([episodes([7])])
    assert values(complete) == list(range(1, 8))
