"""One tick of the table of the clients: ten thousand rows, each of them changed."""

import os
import statistics
import time
from collections.abc import Callable

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtWidgets import QApplication

from benchmarks.report import Measured, run
from soulsgui.gui.clients.model import ClientsModel
from soulsgui.gui.clients.section import ClientsTable
from soulsgui.runner.api.feed import MOST_CLIENTS
from soulsgui.wire.control import ClientStatus

CLIENTS = 10_000
TICKS = 10
ALLOWED_S = 0.025
"""What a tick may cost: five a second then leave the window seven eighths of its time."""


def clients(tick: int) -> list[ClientStatus]:
    """Return everyone's status at one tick; each is another one at the next."""
    return [
        ClientStatus(
            id=f"gamer-{number}",
            name=f"gamer-{number}",
            state="online",
            age_s=0.5,
            episodes=number + tick,
            env_steps_per_s=float((number * 7919 + tick * 104_729) % 5000),
            mean_return=float((number * 31 + tick) % 500),
        )
        for number in range(CLIENTS)
    ]


def tick_s(app: QApplication, by: str) -> tuple[float, float]:
    """Return the seconds of one tick, and of its longest turn: in between the window does other things.

    A tick takes the changes in, message by message, then sorts and draws what is in sight.

    Args:
        app: Draws.
        by: Column that it is sorted by.
    """
    model = ClientsModel()
    table = ClientsTable("benchmark", model)
    table.sort_by(model.column_number(by), downwards=True)
    table.resize(1100, 700)
    table.show()
    model.replace(clients(0))
    model.tick()
    app.processEvents()
    whole, longest = [], []
    for changed in [clients(tick) for tick in range(1, TICKS + 1)]:
        turns = []
        for first in range(0, CLIENTS, MOST_CLIENTS):
            turns.append(turn_s(app, lambda part=changed[first : first + MOST_CLIENTS]: model.apply(part)))
        turns.append(turn_s(app, model.tick))
        whole.append(sum(turns))
        longest.append(max(turns))
    table.deleteLater()
    app.processEvents()
    return statistics.mean(whole), statistics.mean(longest)


def turn_s(app: QApplication, work: Callable[[], None]) -> float:
    """Return the seconds in which the window answers nobody, because it does this and draws what follows."""
    began = time.perf_counter()
    work()
    app.processEvents()
    return time.perf_counter() - began


def measure(quick: bool) -> list[Measured]:
    """Measure it sorted by name, where no row moves, and by rate, where nearly all do."""
    app = QApplication.instance() or QApplication([])
    assert isinstance(app, QApplication)
    repeats = 2 if quick else 5
    found = []
    for by in ("name", "rate"):
        sides = zip(*(tick_s(app, by) for _ in range(repeats)), strict=True)
        for what, seconds in zip(("a tick", "its longest turn"), sides, strict=True):
            name, value = f"{what} of {CLIENTS:,} clients, sorted by {by}", statistics.median(seconds)
            found.append(Measured(name, value, "s", ALLOWED_S, "allowed", value / ALLOWED_S, repeats))
    return found


if __name__ == "__main__":
    run(measure)
