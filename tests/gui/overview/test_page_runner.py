"""The overview before a real run: every control acts on the server, a killed trainer leaves no gap."""

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from soulsgui.gui.feed import Feed
from soulsgui.gui.overview.page import OverviewPage
from soulsgui.wire.control import History, ServiceStatus
from tests.end_to_end.server import RunningServer
from tests.faults.waiting import LIMIT_S
from tests.gui.fake_feed import FakeShell
from tests.gui.plotting.curves import drawn


@pytest.fixture(scope="module")
def training(server: RunningServer) -> RunningServer:
    """The runner with a run without a goal and two local clients."""
    server.start_run(overrides={"checkpoint.every_updates": 2, "ppo.round_timeout": 4.0, "ppo.n_steps": 64})
    return server


@pytest.fixture
def page(qtbot: QtBot, training: RunningServer, feed: Feed, shell: FakeShell) -> Iterator[OverviewPage]:
    made = OverviewPage(feed, shell)
    qtbot.addWidget(made)
    made.resize(1120, 710)
    made.show()
    # Tests before this one may have left others beside them.
    eventually(qtbot, lambda: made.plot.curve.complete and shown(made, "client-1", "client-2"))
    yield made
    made.hide()


def eventually(qtbot: QtBot, seen: Callable[[], object]) -> None:
    qtbot.waitUntil(lambda: bool(seen()))


def shown(page: OverviewPage, *clients: str) -> bool:
    return all(page.clients.model.row_of(name) is not None for name in clients)


def service(feed: Feed, name: str) -> ServiceStatus:
    return next(found for found in feed.status.services if found.name == name)


def states(server: RunningServer) -> set[str]:
    return {server.client_state(name) for name in ("client-1", "client-2")}


def told(qtbot: QtBot, feed: Feed, command: str, **params: Any) -> dict[str, Any]:
    call = feed.call(command, params)
    with qtbot.waitSignal(call.done) as answered:
        pass
    result: dict[str, Any] = answered.args[0]
    return result


def rows_drawn(page: OverviewPage) -> list[tuple[float, float]]:
    series = page.plot.curve.series
    return sorted(drawn(series) + drawn(series, overwritten=True))


def rows_stored(qtbot: QtBot, page: OverviewPage, feed: Feed) -> list[tuple[float, float]]:
    series = page.plot.curve.series
    answer = told(qtbot, feed, "history.query", run=series.run_id, metric=series.metric, points=200_000)
    history = History.model_validate(answer)
    values = [float(f"{value:.5g}") for value in history.value]
    return sorted(zip(map(float, history.env_steps), values, strict=True))


def rounded(rows: list[tuple[float, float]]) -> list[tuple[float, float]]:
    return [(x, float(f"{y:.5g}")) for x, y in rows]


def same_rows_soon(qtbot: QtBot, page: OverviewPage, feed: Feed) -> None:
    """Wait until as many rows are drawn as are stored, with the same ends: of a long run they are buckets."""

    def summed_up(rows: list[tuple[float, float]], count: int) -> tuple[float, ...]:
        xs, values = zip(*rows, strict=True)
        return count, max(xs), min(values), max(values)

    deadline = time.monotonic() + LIMIT_S
    while True:
        stored = rows_stored(qtbot, page, feed)
        seen = summed_up(rounded(rows_drawn(page)), len(page.plot.curve.series))
        if seen == summed_up(stored, len(stored)):
            break
        assert time.monotonic() < deadline, (seen, stored[-5:])
        qtbot.wait(100)
    assert len(stored) > 5


def choose_metric(page: OverviewPage, metric: str) -> None:
    box = page.plot.controls.metric_box
    box.setCurrentIndex(box.findData(metric))
    box.activated.emit(box.currentIndex())


def test_after_a_killed_trainer_the_card_counts_down_and_the_curve_goes_on_without_gap_or_double(
    qtbot: QtBot, page: OverviewPage, feed: Feed, training: RunningServer
) -> None:
    card, series = page.services.cards["trainer"], page.plot.curve.series
    words: list[str] = []
    feed.services_changed.connect(lambda _: words.append(card.words))
    eventually(qtbot, lambda: feed.status.run.checkpoint_env_steps is not None and len(series) > 20)
    before = feed.status.run.attempt
    pid = service(feed, "trainer").pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    eventually(qtbot, lambda: feed.status.run.attempt > before)
    known = len(series)
    eventually(qtbot, lambda: len(series) > known + 20)
    crash = [one for one in words if "killed by signal 9 (SIGKILL)" in one]
    assert any(re.search(r"Restarting in \d+ s \(\d/5\)", one) for one in crash)

    def counts_the_restart() -> None:
        assert re.search(r"\d restart", card.words), "\n".join(words[-5:])

    qtbot.waitUntil(counts_the_restart)
    assert any(mark.text.startswith("Attempt 2") for mark in page.plot.marks.marks)

    page.clients.choose("client-1", "client-2")
    page.clients.buttons["pause"].click()
    eventually(qtbot, lambda: states(training) == {"paused"})
    for metric in ("return", "policy_loss"):
        choose_metric(page, metric)
        eventually(qtbot, lambda: page.plot.curve.is_loaded and len(page.plot.curve.series))
        # A round that was under way may still be closed: both sides are looked at until they agree.
        same_rows_soon(qtbot, page, feed)
    eventually(qtbot, page.clients.buttons["resume"].isEnabled)
    page.clients.buttons["resume"].click()
    updates = training.status().run.updates
    eventually(qtbot, lambda: training.status().run.updates > updates + 2)
