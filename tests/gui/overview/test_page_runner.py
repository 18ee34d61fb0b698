"""The overview before a real run: every control acts on the server, a killed trainer leaves no gap."""

import os
import re
import signal
import time
from collections.abc import Callable, Iterable

import pytest
from pytestqt.qtbot import QtBot

from soulsgui.gui.feed import Feed
from soulsgui.gui.overview.page import OverviewPage
from tests.end_to_end.server import UNHURRIED, RunningServer
from tests.faults.waiting import LIMIT_S
from tests.gui.fake_feed import FakeShell
from tests.gui.plotting.curves import drawn
from tests.gui.reading import choose, shown, words_of


@pytest.fixture(scope="module")
def training(server: RunningServer) -> RunningServer:
    """The runner with a run without a goal and two local clients."""
    server.start_run(overrides={**UNHURRIED, "checkpoint.every_updates": 2, "ppo.round_timeout": 4.0})
    return server


@pytest.fixture
def page(qtbot: QtBot, training: RunningServer, feed: Feed, shell: FakeShell) -> OverviewPage:
    made = shown(qtbot, OverviewPage(feed, shell), 1120, 710)
    # Tests before this one may have left others beside them.
    eventually(qtbot, lambda: made.plot.curve.complete and made.clients.model.rowCount() >= 2)
    return made


def eventually(qtbot: QtBot, seen: Callable[[], object]) -> None:
    qtbot.waitUntil(lambda: bool(seen()))


def summed_up(rows: Iterable[tuple[float, float]], count: int) -> tuple[float, ...]:
    xs, values = zip(*rows, strict=True)
    ends = [float(f"{value:.5g}") for value in (min(values), max(values))]
    return count, max(xs), *ends


def same_rows_soon(qtbot: QtBot, page: OverviewPage, feed: Feed) -> None:
    """Wait until as many rows are drawn as are stored, with the same ends: of a long run they are buckets."""
    series, deadline = page.plot.curve.series, time.monotonic() + LIMIT_S
    asked = {"run": series.run_id, "metric": series.metric, "points": 200_000}
    while True:
        with qtbot.waitSignal(feed.call("history.query", asked).done) as answered:
            pass
        stored = answered.args[0]
        there = summed_up(zip(stored.env_steps, stored.value, strict=True), len(stored.value))
        seen = summed_up(drawn(series) + drawn(series, overwritten=True), len(series))
        if seen == there:
            break
        assert time.monotonic() < deadline, (seen, there)
        qtbot.wait(100)
    assert len(stored.value) > 5


def test_after_a_killed_trainer_the_card_counts_down_and_the_curve_goes_on_without_gap_or_double(
    qtbot: QtBot, page: OverviewPage, feed: Feed, training: RunningServer
) -> None:
    card, series = page.services.cards["trainer"], page.plot.curve.series
    words: list[str] = []
    feed.services_changed.connect(lambda _: words.append(words_of(card)))
    eventually(qtbot, lambda: feed.status.run.checkpoint_env_steps is not None and len(series) > 20)
    before = feed.status.run.attempt
    (pid,) = [found.pid for found in feed.status.services if found.name == "trainer"]
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    eventually(qtbot, lambda: feed.status.run.attempt > before)
    known = len(series)
    eventually(qtbot, lambda: len(series) > known + 20 and feed.status.run.updates > 5)
    crash = [one for one in words if "killed by signal 9 (SIGKILL)" in one]
    assert any(re.search(r"Restarting in \d+ s \(\d/5\)", one) for one in crash)

    def counts_the_restart() -> None:
        assert re.search(r"\d restart", words_of(card)), "\n".join(words[-5:])

    qtbot.waitUntil(counts_the_restart)
    assert any(mark.text.startswith("Attempt 2") for mark in page.plot.marks.marks)

    page.clients.choose("client-1", "client-2")
    page.clients.buttons["pause"].click()
    for name in ("client-1", "client-2"):
        eventually(qtbot, lambda name=name: training.client_state(name) == "paused")
    for metric in ("return", "policy_loss"):
        choose(page.plot.controls.metric_box, metric)
        eventually(qtbot, lambda: page.plot.curve.is_loaded and len(page.plot.curve.series))
        # A round that was under way may still be closed: both sides are looked at until they agree.
        same_rows_soon(qtbot, page, feed)
    eventually(qtbot, page.clients.buttons["resume"].isEnabled)
    page.clients.buttons["resume"].click()
    updates = training.status().run.updates
    eventually(qtbot, lambda: training.status().run.updates > updates + 2)
