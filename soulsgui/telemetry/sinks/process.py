"""The process of a sink: what was recorded behind its cursor, again and again, until it is asked to stop.

The runner supervises it as it does every service: one that fails or hangs is told, and started again.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

from pydantic import ValidationError

from soulsgui.config.layers import load_run_settings
from soulsgui.config.paths import RunFolder
from soulsgui.config.schema import Settings
from soulsgui.errors import NotAllowedError, ServerUnreachableError
from soulsgui.process import setup_logging, stop_on_signals
from soulsgui.system import atomic_write, read_small
from soulsgui.telemetry.sinks.records import Cursor, Record, read_records, thinned
from soulsgui.telemetry.store.schema import StoreError
from soulsgui.wire.api_client import CONTROL_FILE, ApiClient, CommandFailedError
from soulsgui.wire.beats import PeriodicWriter, own_instance
from soulsgui.wire.connection import Address
from soulsgui.wire.control import ControlFile, Event
from soulsgui.wire.control.results import EventList
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.node import NodePhase, NodeState

logger = logging.getLogger(__name__)

_LOOK_EVERY_S = 1.0
_EVENTS_EVERY_S = 2.0
_STATE_EVERY_S = 0.5
_POINTS = 20
"""Episodes in each look that are told one by one; of more, means are."""
_DRAIN_S = 20.0


class Sink(Protocol):
    """Takes records elsewhere. It may take its time, and fail: it is the only one in its process."""

    def write(self, records: Iterable[Record]) -> None:
        """Take records; those that it was given when it returns are not told again."""

    def close(self) -> None:
        """Take leave."""


def _tensorboard(run: RunFolder, settings: Settings) -> Sink:
    from soulsgui.telemetry.sinks.tensorboard import TensorBoardSink

    return TensorBoardSink(run, settings)


def _wandb(run: RunFolder, settings: Settings) -> Sink:
    from soulsgui.telemetry.sinks.wandb import WandbSink

    return WandbSink(run, settings)


_SINKS: dict[str, Callable[[RunFolder, Settings], Sink]] = {"tensorboard": _tensorboard, "wandb": _wandb}


class SinkProcess:
    """One sink at work on one run."""

    def __init__(
        self, name: str, run: RunFolder, address: Address, server: Path, stop: threading.Event
    ) -> None:
        self._name, self._run, self._server, self._stop = name, run, server, stop
        self._cursor_file = run.sinks / f"{name}.json"
        self._cursor = Cursor()
        if self._cursor_file.exists():
            self._cursor = Cursor.read(read_small(self._cursor_file)) or self._cursor
        self._instance = own_instance()
        self._tick = 0
        self._phase: NodePhase = "loading"
        self._error = self._farewell = ""
        self._events_at = float("-inf")
        key = Keys(address.prefix).node(name)
        self._reporter = PeriodicWriter(address, "report", key, _STATE_EVERY_S, self._state)

    def run(self, make: Callable[[], Sink]) -> None:
        """Take everything over until stopped, then what came meanwhile."""
        self._reporter.start()
        try:
            sink = make()
            while not self._stop.is_set():
                self._turn(sink)
                self._stop.wait(_LOOK_EVERY_S)
            self._phase, self._events_at = "stopping", float("-inf")
            deadline = time.monotonic() + _DRAIN_S
            while self._turn(sink) and time.monotonic() < deadline:
                pass
            sink.close()
            self._farewell = "ended as asked"
        finally:
            self._reporter.close()

    def _turn(self, sink: Sink) -> bool:
        """Take over what is behind the cursor; return whether there was anything."""
        self._tick += 1
        try:
            records, cursor = read_records(self._run.store, self._cursor)
            self._error = ""
        except StoreError as error:  # telemetry sets it aside, or the disk has to be looked at
            records, cursor, self._error = [], self._cursor, error.message
        events, last = self._events(cursor.event)
        records += events
        cursor = cursor.model_copy(update={"event": last})
        self._phase = "stopping" if self._stop.is_set() else "collecting" if records else "waiting"
        if records:
            sink.write(thinned(records, _POINTS))
        if cursor != self._cursor:
            self._cursor_file.parent.mkdir(exist_ok=True)
            atomic_write(self._cursor_file, cursor.to_json().encode())
            self._cursor = cursor
        return bool(records)

    def _events(self, since: int) -> tuple[list[Record], int]:
        """Return what has happened to the run, as far as the runner answers, and the last event's number."""
        now = time.monotonic()
        if now < self._events_at + _EVENTS_EVERY_S:
            return [], since
        self._events_at = now
        found = events_of(self._server, since)
        ours = [event for event in found if event.run_id == self._run.run_id]
        records = [Record("event", event.time, text=_words(event)) for event in ours]
        return records, max((event.number for event in found), default=since)

    def _state(self) -> str:
        state = NodeState(
            name=self._name,
            instance=self._instance,
            tick=self._tick,
            phase=self._phase,
            run_id=self._run.run_id,
            error=self._error,
            farewell=self._farewell,
        )
        return state.to_json()


def events_of(server: Path, since: int = 0) -> list[Event]:
    """Return what has happened on a server after an event, nothing where its runner does not answer."""
    try:
        client = ApiClient(ControlFile.load(server / CONTROL_FILE))
        return EventList.model_validate(client.command("history.events", {"since": since})).events
    except (ServerUnreachableError, NotAllowedError, CommandFailedError, ValidationError) as error:
        logger.debug("no events: %s", error)
        return []


def _words(event: Event) -> str:
    return f"{event.level}: {event.what}" + (f" {event.cause}" if event.cause else "")


def run_sink(name: str, run: RunFolder, address: Address, server: Path) -> int:
    """Run a sink until the process is asked to stop; call it in the main thread.

    Args:
        name: One of `keys.SINKS`.
        run: Whose records.
        address: Where the state is told.
        server: Folder of the runner, which tells events.
    """
    stop = stop_on_signals()
    settings = load_run_settings(run.config)
    setup_logging(settings.logging.level)
    logger.info("%s of run %s", name, run.run_id)
    SinkProcess(name, run, address, server, stop).run(lambda: _SINKS[name](run, settings))
    logger.info("ended")
    return 0
