"""The page of plots before a real run: what it draws is what the server has stored."""

import pytest
from pytestqt.qtbot import QtBot

from soulsgui.gui.feed import Feed
from soulsgui.gui.plots.page import PlotsPage
from soulsgui.gui.plotting.rows import Axis
from soulsgui.wire.control import History
from tests.end_to_end.server import UNHURRIED, RunningServer
from tests.gui.fake_feed import FakeShell
from tests.gui.plotting.curves import drawn
from tests.gui.reading import choose, shown


@pytest.mark.processes
def test_curves_grow_with_the_run_and_are_those_of_the_store(
    qtbot: QtBot, server: RunningServer, feed: Feed, shell: FakeShell
) -> None:
    run = server.start_run(overrides={**UNHURRIED, "clients.local": 1, "ppo.epochs": 1}).name
    page = shown(qtbot, PlotsPage(feed, shell), 1100, 700)
    page.show_where(metric="policy_loss")
    qtbot.waitUntil(
        lambda: len(page.grid.cells) == 2 and all(cell.curves for cell in page.grid.cells.values())
    )
    series = [cell.curves[0][0].series for cell in page.grid.cells.values()]
    qtbot.waitUntil(lambda: all(len(one) > 3 for one in series))
    assert {one.run_id for one in series} == {run}
    server.api.command("run.stop")
    qtbot.waitUntil(lambda: feed.status.run.state == "stopped")
    choose(page.controls.axis_box, Axis.UPDATE)
    for cell in page.grid.cells.values():
        asked = {"run": run, "metric": cell.shown_metric, "x": "update"}

        def is_as_stored(cell=cell, asked=asked) -> bool:
            stored = History.model_validate(server.api.command("history.query", asked))
            points = sorted(zip(map(float, stored.update), stored.value, strict=True))
            shown_now = sorted(drawn(cell.curves[0][0].series))
            return len(points) > 3 and shown_now == [(x, pytest.approx(y)) for x, y in points]

        qtbot.waitUntil(is_as_stored)
