"""The table of clients as a window on a real server shows it: fed by its feed, drawn five times a second."""

import asyncio
import os
import queue
import threading
import time
from dataclasses import dataclass, field

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtWidgets import QApplication

from soulsgui.gui.clients.model import ClientsModel
from soulsgui.gui.clients.section import ClientsTable
from soulsgui.gui.shell.runner_link import RunnerLink
from soulsgui.wire.control import ClientsChange, ControlFile, FeedMessage, Snapshot

TICKS_PER_S = 5.0


@dataclass
class Watched:
    """What was seen of a table.

    Attributes:
        ticks_s: What each drawing took: taking the news in, sorting, drawing.
        news_s: At each, how long ago the runner told of the client that it told of least lately.
        rows: How many clients it showed at the end.
    """

    seconds: float = 0.0
    ticks_s: list[float] = field(default_factory=list)
    news_s: list[float] = field(default_factory=list)
    rows: int = 0

    @property
    def ticks_per_s(self) -> float:
        return len(self.ticks_s) / self.seconds if self.seconds else 0.0

    def add(self, more: "Watched") -> None:
        self.seconds += more.seconds
        self.ticks_s += more.ticks_s
        self.news_s += more.news_s
        self.rows = more.rows


class LiveTable:
    """Follows a runner from the moment it is made."""

    def __init__(self, control: ControlFile) -> None:
        app = QApplication.instance() or QApplication([])
        assert isinstance(app, QApplication)
        self._app = app
        self._model = ClientsModel()
        self._table = ClientsTable("live", self._model)
        self._table.sort_by(self._model.column_number("rate"), downwards=True)
        self._table.resize(1100, 700)
        self._table.show()
        self._told_at: dict[str, float] = {}
        self._messages: queue.SimpleQueue[tuple[float, FeedMessage]] = queue.SimpleQueue()
        self._control = control
        self._loop = asyncio.new_event_loop()
        self._following = self._loop.create_task(self._follow())
        self._thread = threading.Thread(target=self._run, name="feed")
        self._thread.start()

    def watch(self, seconds: float) -> Watched:
        """Show it for so long, as a window does, and return what was seen."""
        seen = Watched()
        began = due = time.monotonic()
        while (now := time.monotonic()) < began + seconds:
            if now < due:
                time.sleep(min(due, began + seconds) - now)
                continue
            due = max(due + 1 / TICKS_PER_S, now)
            if self._following.done():
                self._following.result()  # says why nothing comes any more
            self._take()
            self._model.tick()
            self._app.processEvents()
            seen.ticks_s.append(time.monotonic() - now)
            if self._told_at:
                seen.news_s.append(now - min(self._told_at.values()))
        seen.seconds = time.monotonic() - began
        seen.rows = self._model.rowCount()
        return seen

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._following.cancel)
        self._thread.join()
        self._loop.close()
        self._table.deleteLater()
        self._app.processEvents()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(asyncio.gather(self._following, return_exceptions=True))

    async def _follow(self) -> None:
        link = RunnerLink(self._control)
        try:
            async for message in link.follow(None):
                self._messages.put((time.monotonic(), message))
        finally:
            await link.close()

    def _take(self) -> None:
        while not self._messages.empty():
            at, message = self._messages.get()
            if isinstance(message, Snapshot):
                clients = message.status.clients
                self._model.replace(clients)
                self._told_at = dict.fromkeys((client.id for client in clients), at)
            elif isinstance(message, ClientsChange):
                self._model.apply(message.changed, message.removed)
                self._told_at |= dict.fromkeys((client.id for client in message.changed), at)
                for gone in message.removed:
                    self._told_at.pop(gone, None)
