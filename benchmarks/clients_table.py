"""One tick of the table of the clients: ten thousand rows, each of them changed."""

import os
import time

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtWidgets import QApplication

from benchmarks.report import Measured, beside, run
from soulsgui.gui.clients.model import ClientsModel
from soulsgui.gui.clients.section import ClientsTable
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


def tick_s(app: QApplication, by: str) -> float:
    """Return the seconds of one tick: taking the changes in, sorting, and drawing what is in sight.

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
    news = [clients(tick) for tick in range(1, TICKS + 1)]
    began = time.perf_counter()
    for changed in news:
        model.apply(changed)
        model.tick()
        app.processEvents()
    took = (time.perf_counter() - began) / TICKS
    table.deleteLater()
    app.processEvents()
    return took


def measure(quick: bool) -> list[Measured]:
    """Measure it sorted by name, where no row moves, and by rate, where nearly all do."""
    app = QApplication.instance() or QApplication([])
    assert isinstance(app, QApplication)
    repeats = 2 if quick else 5
    return [
        beside(
            f"a tick of {CLIENTS:,} clients, sorted by {by}",
            "s",
            lambda by=by: tick_s(app, by),  # type: ignore[misc]
            "allowed",
            lambda: ALLOWED_S,
            repeats,
        )
        for by in ("name", "rate")
    ]


if __name__ == "__main__":
    run(measure)
