"""The process that Prometheus and Grafana ask: it reads the runner's state and the stores, no more."""

import asyncio
import contextlib
import ipaddress
import logging
import secrets
import threading
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import redis
from aiohttp import web
from pydantic import ValidationError

from soulsgui.config.paths import Folders, RunFolder
from soulsgui.config.sections.server import ExporterSettings
from soulsgui.errors import NotAllowedError, ServerUnreachableError, SoulsGuiError, UsageError
from soulsgui.installing import how_to_install
from soulsgui.process import setup_logging, stop_on_signals
from soulsgui.system import is_loopback, read_small, who_listens, write_private
from soulsgui.telemetry.sinks.grafana import GrafanaSource
from soulsgui.telemetry.sinks.process import events_of
from soulsgui.telemetry.sinks.records import Cursor, end_of, read_records
from soulsgui.telemetry.store.schema import StoreError
from soulsgui.wire.api_client import CONTROL_FILE, ApiClient, CommandFailedError
from soulsgui.wire.beats import PeriodicWriter, own_instance
from soulsgui.wire.connection import AWAY, Address, connect
from soulsgui.wire.control import ControlFile, Status
from soulsgui.wire.http_guard import HttpGuard, why_refused
from soulsgui.wire.keys import EXPORTER, TELEMETRY, TRAINER, Keys
from soulsgui.wire.messages.node import NodeState

if TYPE_CHECKING:
    from soulsgui.telemetry.sinks.prometheus import Exposition, Seen

logger = logging.getLogger(__name__)

_STATE_EVERY_S = 0.5
_FOLLOW_EVERY_S = 1.0
_FRESH_S = 1.0  # however many ask, the runner is asked no more often than this
_TURN_S = 0.25
_KEPT_ALIVE_S = 30.0  # a connection that asks nothing; Prometheus asks each 15 s
_MAX_BODY_BYTES = 2**16

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Exporter:
    """Answers as long as it is not stopped."""

    def __init__(self, folders: Folders, settings: ExporterSettings, address: Address) -> None:
        self._folders, self._settings = folders, settings
        self._loopback = is_loopback(settings.host)
        self._token = "" if self._loopback else _token(folders.exporter_token)
        self._keys = Keys(address.prefix)
        self._redis = connect(address, EXPORTER)
        self._instance = own_instance()
        self._tick = 0
        self._exposition = _exposition()
        self._run = ""
        self._cursor = Cursor()
        self._asking = asyncio.Lock()
        self._told: tuple[float, bytes] | None = None
        key = self._keys.node(EXPORTER)
        self._reporter = PeriodicWriter(address, "report", key, _STATE_EVERY_S, self._state)
        app = web.Application(middlewares=[self._guarded], client_max_size=_MAX_BODY_BYTES)
        app.router.add_get("/metrics", self._metrics)
        GrafanaSource(folders.runs, partial(events_of, folders.server)).add_to(app)
        self._server = web.AppRunner(
            app, access_log=None, shutdown_timeout=1.0, keepalive_timeout=_KEPT_ALIVE_S
        )
        self._guard = HttpGuard(self._server)

    async def run(self, stop: threading.Event) -> None:
        """Listen, follow the run, and end when asked to."""
        await self._listen()
        self._reporter.start()
        try:
            followed_at = float("-inf")
            while not stop.is_set():
                self._tick += 1
                if self._exposition is not None and time.monotonic() >= followed_at + _FOLLOW_EVERY_S:
                    followed_at = time.monotonic()
                    await asyncio.to_thread(self._follow, self._exposition)
                await asyncio.sleep(_TURN_S)
        finally:
            await self._guard.close()
            await self._server.cleanup()
            self._reporter.close()

    async def _listen(self) -> None:
        host, port = self._settings.host, self._settings.port
        await self._server.setup()
        self._guard.open()
        try:
            await web.TCPSite(self._server, host, port).start()
        except OSError as error:
            await self._server.cleanup()
            other = who_listens(port)
            why = f"it is taken by {other}" if other else error.strerror or str(error)
            raise SoulsGuiError(
                f"Port {port} of {host} can't be used for Prometheus and Grafana: {why}.",
                "Free it, or choose another: exporter.port",
            ) from error
        told = "" if self._loopback else f", for those who send the token in {self._folders.exporter_token}"
        logger.info("at http://%s:%d%s", host, port, told)

    @web.middleware
    async def _guarded(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        refusal = why_refused(request.headers, self._token, self._loopback)
        if refusal is not None:
            return web.Response(status=refusal[0], text=refusal[1])
        self._guard.known.add(request.protocol)
        return await handler(request)

    async def _metrics(self, _request: web.Request) -> web.Response:
        if self._exposition is None:
            words = f"The package prometheus-client is missing: {how_to_install('prometheus_client')}"
            return web.Response(status=501, text=words)
        async with self._asking:
            if self._told is None or time.monotonic() >= self._told[0] + _FRESH_S:
                seen = await asyncio.to_thread(self._look)
                self._told = time.monotonic(), await asyncio.to_thread(self._exposition.text, seen)
        return web.Response(
            body=self._told[1], headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        )

    def _look(self) -> "Seen":
        """Ask the runner and Redis; where one does not answer, less is known."""
        from soulsgui.telemetry.sinks.prometheus import MOST_CLIENTS, Seen

        status, queues, timings_s = self._status(), dict[str, int](), dict[str, float]()
        with contextlib.suppress(*AWAY, redis.RedisError):
            clients = [one.id for one in status.clients[:MOST_CLIENTS]] if status is not None else []
            pipeline = self._redis.pipeline(transaction=False)
            for client in clients:
                pipeline.xlen(self._keys.chunks(client))
            lengths = pipeline.execute(raise_on_error=False)
            queues = {one: n for one, n in zip(clients, lengths, strict=True) if isinstance(n, int)}
            trainer = self._node(TRAINER)
            timings_s = trainer.timings_s if trainer is not None else {}
        return Seen(status, queues, timings_s)

    def _node(self, name: str) -> NodeState | None:
        return NodeState.read(cast("bytes | None", self._redis.get(self._keys.node(name))))

    def _status(self) -> Status | None:
        """Return what the runner says, None where it does not answer."""
        try:
            return Status.model_validate(
                ApiClient(ControlFile.load(self._folders.server / CONTROL_FILE)).status()
            )
        except (ServerUnreachableError, NotAllowedError, CommandFailedError, ValidationError) as error:
            logger.debug("the runner does not answer: %s", error)
            return None

    def _follow(self, exposition: "Exposition") -> None:
        """Take in what the run has recorded since the last time; of what was before, nothing is told."""
        try:
            telemetry = self._node(TELEMETRY)
            if telemetry is None or not telemetry.run_id:
                return
            active = RunFolder(self._folders.runs / telemetry.run_id)
            if active.run_id != self._run:
                self._run, self._cursor = active.run_id, end_of(active.store)
            records, self._cursor = read_records(active.store, self._cursor)
            exposition.take(records)
        except (StoreError, OSError, *AWAY, redis.RedisError) as error:
            logger.debug("nothing of the run can be read: %s", error)

    def _state(self) -> str:
        return NodeState(
            name=EXPORTER, instance=self._instance, tick=self._tick, phase="collecting"
        ).to_json()


def _exposition() -> "Exposition | None":
    try:
        from soulsgui.telemetry.sinks.prometheus import Exposition
    except ModuleNotFoundError:
        return None
    return Exposition()


def _token(path: Path) -> str:
    """Return the token of a file, made when there is none; only its owner can read it."""
    with contextlib.suppress(FileNotFoundError):
        if token := read_small(path).decode(errors="replace").strip():
            return token
    path.parent.mkdir(parents=True, exist_ok=True)
    token = secrets.token_urlsafe(32)
    write_private(path, f"{token}\n".encode())
    return token


def run_exporter(folders: Folders, settings: ExporterSettings, address: Address) -> int:
    """Answer until the process is asked to stop; call it in the main thread.

    Raises:
        UsageError: `exporter.host` is neither loopback nor a private address.
    """
    setup_logging()
    stop = stop_on_signals()
    if not is_loopback(settings.host) and not _is_private(settings.host):
        raise UsageError(
            f"exporter.host = {settings.host} is not a private address: what is sent there is not encrypted.",
            "Leave it on 127.0.0.1, and let a reverse proxy with TLS or an SSH tunnel lead there.",
        )
    asyncio.run(Exporter(folders, settings, address).run(stop))
    return 0


def _is_private(host: str) -> bool:
    with contextlib.suppress(ValueError):
        found = ipaddress.ip_address(host)
        return found.is_private and not found.is_unspecified
    return False
