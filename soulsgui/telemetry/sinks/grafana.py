"""What Grafana's JSON data source asks: curves of any run over a span of time, and what happened in it."""

import asyncio
import contextlib
import html
import json
import logging
import math
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from aiohttp import web
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from soulsgui.config.errors import reason_of
from soulsgui.config.paths import RunFolder
from soulsgui.errors import SoulsGuiError, printable
from soulsgui.system import read_small
from soulsgui.telemetry.sinks.records import read_markers
from soulsgui.telemetry.store import client_names, query_history
from soulsgui.wire.control import Event, HistoryQueryParams
from soulsgui.wire.messages.base import Message

logger = logging.getLogger(__name__)

_MOST_POINTS = 10_000
_MOST_TARGETS = 50
_MOST_RUNS = 500
_MOST_NOTES = 500
_MOST_MISTAKES = 5
_AT_ONCE = 2  # queries that are read at the same time

LATEST = "latest"


def _seconds(value: Any) -> Any:
    """Return a moment as seconds since the epoch, which Grafana writes as ISO 8601."""
    try:
        return datetime.fromisoformat(value).timestamp() if isinstance(value, str) else value
    except (ValueError, OverflowError, OSError) as error:
        raise ValueError("should be a time, such as 2026-01-31T12:00:00Z") from error


_Moment = Annotated[float, BeforeValidator(_seconds), Field(ge=0, le=1e11, allow_inf_nan=False)]


class _Asked(BaseModel):
    """A part of a request; what is not known here is left out."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class _Range(_Asked):
    start: _Moment = Field(alias="from")
    end: _Moment = Field(alias="to")


class _Payload(_Asked):
    run: str = Field(default=LATEST, max_length=300)
    client: str = Field(default="", max_length=64)


def _payload(value: Any) -> Any:
    """Return what was entered beside a metric; older editors send it as text, and none as empty text."""
    try:
        return json.loads(value or "{}") if isinstance(value, str) else value or {}
    except (ValueError, RecursionError) as error:
        raise ValueError('should be JSON, such as {"run": "latest"}') from error


class _Target(_Asked):
    target: str = Field("", max_length=200)
    ref_id: str = Field("", alias="refId", max_length=200)
    payload: Annotated[_Payload, BeforeValidator(_payload)] = _Payload()
    hide: bool = False


class _Query(_Asked):
    range: _Range
    points: int = Field(1000, alias="maxDataPoints", ge=1)
    targets: list[_Target] = Field(max_length=_MOST_TARGETS)


class _Notes(_Asked):
    range: _Range


class _Numbered(Message):
    """What is asked of a run's record here: the number that the library has given it."""

    number: int = 0


def _place(run: RunFolder) -> tuple[int, str]:
    """Sort key: a run's number, as in the library; its id where that can't be read."""
    record = None
    with contextlib.suppress(OSError):
        record = _Numbered.read(read_small(run.run))
    return record.number if record is not None else 0, run.run_id


class UnknownRunError(SoulsGuiError):
    """There is no run of this name."""


class GrafanaSource:
    """Answers from the stores of the runs in a folder.

    Args:
        runs: The folder of the runs.
        events: Returns what has happened on the server, as far as that is known.
    """

    def __init__(self, runs: Path, events: Callable[[], Iterable[Event]]) -> None:
        self._runs, self._events = runs, events
        self._reading = asyncio.Semaphore(_AT_ONCE)

    def add_to(self, app: web.Application) -> None:
        """Let an application answer what Grafana asks."""

        def answer(work: Callable[[Any], Any]) -> Callable[[web.Request], Any]:
            async def handle(request: web.Request) -> web.Response:
                try:
                    asked = json.loads(await request.read() or b"{}")
                    async with self._reading:
                        found = await asyncio.to_thread(work, asked if isinstance(asked, dict) else {})
                except (ValidationError, ValueError, RecursionError) as error:
                    return web.Response(status=400, text=f"This can't be read: {_why(error)}.")
                except SoulsGuiError as error:
                    status = 404 if isinstance(error, UnknownRunError) else 500
                    return web.Response(status=status, text=error.message)
                return web.json_response(found)

            return handle

        app.router.add_get("/", self._root)
        for path, work in (
            ("/search", self.search),
            ("/metrics", self.metrics),
            ("/variable", self.variable),
            ("/query", self.query),
            ("/annotations", self.annotations),
        ):
            app.router.add_post(path, answer(work))

    async def _root(self, _request: web.Request) -> web.Response:
        return web.Response(text="SoulsGUI")

    def search(self, _asked: object) -> list[str]:
        """Return the names of the curves of the newest run."""
        return [printable(name) for name in query_history(self._run(LATEST).store, _ONE).metrics]

    def metrics(self, _asked: object) -> list[dict[str, Any]]:
        """Return the same with what may be chosen beside each: a run, and a client."""
        store = self._run(LATEST).store
        clients = ["", *sorted(client_names(store))]
        chosen = [("run", [LATEST, *self._run_ids()]), ("client", clients)]
        payloads = [
            {
                "name": name,
                "label": name.capitalize(),
                "type": "select",
                "options": [{"label": one or "all", "value": one} for one in options],
            }
            for name, options in chosen
        ]
        names = [printable(name) for name in query_history(store, _ONE).metrics]
        return [{"label": name, "value": name, "payloads": payloads} for name in names]

    def variable(self, _asked: object) -> list[dict[str, str]]:
        """Return the runs, which a dashboard may let one choose from."""
        return [{"__text": one, "__value": one} for one in (LATEST, *self._run_ids())]

    def query(self, asked: object) -> list[dict[str, Any]]:
        """Return each curve within the span, in no more points than are asked for."""
        query = _Query.model_validate(asked)
        return [self._curve(one, query) for one in query.targets if one.target and not one.hide]

    def _curve(self, target: _Target, query: _Query) -> dict[str, Any]:
        wanted = HistoryQueryParams(
            metric=target.target,
            client=target.payload.client,
            x="time",
            start=query.range.start,
            end=query.range.end,
            points=min(query.points, _MOST_POINTS),
        )
        found = query_history(self._run(target.payload.run).store, wanted)
        points = [
            [value, round(time * 1000)]
            for time, value in sorted(zip(found.time, found.value, strict=True))
            if math.isfinite(value)
        ]
        title = f"{target.target} {target.payload.client}".rstrip()
        return {"target": printable(title), "refId": target.ref_id, "datapoints": points}

    def annotations(self, asked: object) -> list[dict[str, Any]]:
        """Return what happened within the span, as text without markup, the newest of too many."""
        span = _Notes.model_validate(asked).range
        told: list[tuple[float, str, str, str]] = [
            (event.time, event.what, " ".join(filter(None, (event.cause, event.remedy))), event.level)
            for event in self._events()
        ]
        marked = read_markers(self._run(LATEST).store)
        told += [(record.time, record.text, "", record.kind) for record in marked]
        within = sorted(one for one in told if span.start <= one[0] <= span.end)[-_MOST_NOTES:]
        return [
            {
                "time": round(time * 1000),
                "title": html.escape(printable(title)),
                "text": html.escape(printable(text)),
                "tags": [tag],
            }
            for time, title, text, tag in within
        ]

    def _run_ids(self) -> list[str]:
        """Return the runs that have a store, the newest first."""
        if not self._runs.is_dir():
            return []
        found = (run for run in map(RunFolder, self._runs.iterdir()) if run.store.exists())
        return [run.run_id for run in sorted(found, key=_place, reverse=True)][:_MOST_RUNS]

    def _run(self, asked: str) -> RunFolder:
        """Return a run by its id, or by how that begins."""
        known = self._run_ids()
        fits = known if asked in ("", LATEST) else [one for one in known if one.startswith(asked)]
        if not fits:
            raise UnknownRunError(f"There is no run “{printable(asked, 100)}” with anything recorded.")
        return RunFolder(self._runs / (asked if asked in fits else fits[0]))


_ONE = HistoryQueryParams(points=1)


def _why(error: Exception) -> str:
    """Return why a request can't be read: each field with its reason."""
    if not isinstance(error, ValidationError):
        return "it is no JSON"
    found = error.errors(include_url=False)[:_MOST_MISTAKES]
    told = (f"{'.'.join(map(str, one['loc']))}: {reason_of(one)}" for one in found)
    return printable("; ".join(told), 500)
