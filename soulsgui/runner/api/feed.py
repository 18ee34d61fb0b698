"""The feed of a runner: one ring of numbered messages that every window reads at its own pace.

A window that falls behind the ring gets a snapshot instead of what it missed: a slow one costs no memory.
Pictures of evaluations are not in it: of each job the newest one alone is held, for those who watch it.
"""

import asyncio
import itertools
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Any

from soulsgui.wire import control
from soulsgui.wire.messages.base import Message
from soulsgui.wire.messages.metrics import Row
from soulsgui.wire.messages.node import TrainingProgress

MAX_MESSAGES = 2000
MAX_BYTES = 8 * 2**20
_BATCH = 64
MOST_CLIENTS = 500
"""In a message: who reads it does nothing else meanwhile."""
_TOLD = control.StatusChange.model_fields.keys() & control.Status.model_fields.keys()


@dataclass
class Watcher:
    """One that follows the feed: the jobs whose pictures it wants to see, and how fast they are played."""

    jobs: dict[str, float] = field(default_factory=dict)


class FeedBuffer:
    """A ring of messages, each held as the text it is sent as."""

    def __init__(
        self,
        snapshot: Callable[[int], control.Snapshot],
        first_cursor: int | None = None,
        max_messages: int = MAX_MESSAGES,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._snapshot = snapshot
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._ring: deque[str] = deque()
        self._bytes = 0
        # Cursors grow with the wall clock, so that those of an earlier runner are never valid here.
        self.cursor = int(time.time() * 1000) * 1000 if first_cursor is None else first_cursor
        self._moved = asyncio.Event()
        self._closed = False
        self._watchers: list[Watcher] = []
        self._pictures: dict[str, control.Picture] = {}  # the newest one of each job that is watched

    @property
    def followers(self) -> int:
        """How many follow at this moment."""
        return len(self._watchers)

    def pace(self, job: str) -> float | None:
        """Return how fast those who want to see pictures of a job want it played; None: nobody wants any."""
        return max((one.jobs[job] for one in self._watchers if job in one.jobs), default=None)

    def show(self, job: str, picture: control.Picture | None) -> None:
        """Show a picture to those who watch a job, in place of the one before; None: it has ended."""
        if picture is None:
            self._pictures.pop(job, None)
        elif self.pace(job) is not None:
            self._pictures[job] = picture
            self._wake()

    def push(self, kind: type[Message], **fields: Any) -> None:
        """Add a message under the next cursor."""
        self.cursor += 1
        text = kind.model_validate({"cursor": self.cursor, **fields}).to_json()
        self._ring.append(text)
        self._bytes += len(text)
        while len(self._ring) > self._max_messages or self._bytes > self._max_bytes:
            self._bytes -= len(self._ring.popleft())
        self._wake()

    def holds_after(self, cursor: int) -> bool:
        """Whether every message after this cursor is held."""
        return self.cursor - len(self._ring) <= cursor <= self.cursor

    async def follow(self, cursor: int | None, watcher: Watcher | None = None) -> AsyncGenerator[str]:
        """Yield what came after a cursor and what comes, until the feed is closed."""
        watcher = watcher or Watcher()
        seen: dict[str, control.Picture] = {}
        self._watchers.append(watcher)
        try:
            while not self._closed:
                if cursor is None or not self.holds_after(cursor):
                    cursor = self.cursor
                    yield self._snapshot(cursor).to_json()
                    continue
                skipped = len(self._ring) - (self.cursor - cursor)
                batch = list(itertools.islice(self._ring, skipped, skipped + _BATCH))
                for text in batch:
                    yield text
                cursor += len(batch)
                newest = {job: one for job in watcher.jobs if (one := self._pictures.get(job)) is not None}
                fresh = {job: picture for job, picture in newest.items() if picture is not seen.get(job)}
                seen = newest
                for job, picture in fresh.items():
                    yield control.PictureShown(cursor=cursor, job=job, picture=picture).to_json()
                if not (batch or fresh):
                    await self._moved.wait()
        finally:
            # By identity: equal ones are of others.
            self._watchers = [one for one in self._watchers if one is not watcher]

    def close(self) -> None:
        """End every follower."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()


class FeedPublisher:
    """Puts what changed into the feed, and nothing that did not."""

    def __init__(self, feed: FeedBuffer) -> None:
        self._feed = feed
        self._status: tuple[Any, ...] = ()
        self._clients: dict[str, control.ClientStatus] = {}
        self._refreshed_at = float("-inf")

    def status(self, status: control.Status, now: float) -> None:
        """Publish run, services, server and queue where they changed; what time moves, once a second.

        What moves all the time while a run trains, twice a second.
        """
        running = status.run.state == "running"
        steady = _steady(status, running)
        refresh = bool(status.services) and now - self._refreshed_at >= (0.5 if running else 1.0)
        if steady != self._status or refresh:
            self._status = steady
            self._refreshed_at = now
            told = {name: getattr(status, name) for name in _TOLD}
            self._feed.push(control.StatusChange, **told)

    def clients(self, clients: list[control.ClientStatus]) -> None:
        """Publish the clients whose status changed, and those that are gone."""
        changed = [
            client
            for client in clients
            if (older := self._clients.get(client.id)) is None or _moved(client, older)
        ]
        removed = sorted(set(self._clients) - {client.id for client in clients})
        for name in removed:
            del self._clients[name]
        self._clients |= {client.id: client for client in changed}
        for first in range(0, len(changed), MOST_CLIENTS):
            self._feed.push(control.ClientsChange, changed=changed[first : first + MOST_CLIENTS])
        if removed:
            self._feed.push(control.ClientsChange, changed=[], removed=removed)

    def rows(self, rows: list[Row]) -> None:
        """Publish new rows of the curves."""
        if rows:
            self._feed.push(control.RowsChange, rows=rows)

    def lines(self, lines: list[control.LogLine]) -> None:
        """Publish new log lines."""
        if lines:
            self._feed.push(control.LogChange, lines=lines)


def _steady(status: control.Status, running: bool) -> tuple[Any, ...]:
    """The state without what moves with time alone, or with the training."""
    progress = dict.fromkeys(TrainingProgress.model_fields) if running else {}
    run = status.run.model_copy(update=progress | {"seconds": 0.0, "checkpoint_age_s": None})
    server = status.server.model_copy(update={"memory_bytes": 0, "disk_free_bytes": 0})
    moving = {"uptime_s": None, "cpu_percent": None, "memory_bytes": None, "restart_in_s": None}
    moving |= {"phase": None, "detail": None} if running else {}
    services = [service.model_copy(update=moving) for service in status.services]
    return run, services, server, status.queue, status.allowed


def _moved(client: control.ClientStatus, older: control.ClientStatus) -> bool:
    """Whether a client's status differs in more than its age, or its age in a way a reader would notice."""
    if vars(client) | {"age_s": None} != vars(older) | {"age_s": None}:
        return True
    if client.age_s is None or older.age_s is None:
        return client.age_s != older.age_s
    return abs(client.age_s - older.age_s) >= max(1.0, 0.1 * older.age_s)
