"""The runner of a server: everything put together, opened in order and closed in order."""

import asyncio
import contextlib
import logging
import os
import secrets
import time
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from typing import Any

from soulsgui.config.layers import Layer
from soulsgui.config.paths import Folders
from soulsgui.config.schema import Settings
from soulsgui.errors import ServiceError, SoulsGuiError
from soulsgui.runner.active import Probe
from soulsgui.runner.bus import Bus
from soulsgui.runner.commands.table import HANDLERS, LONG
from soulsgui.runner.conductor import Conductor
from soulsgui.runner.control import HOST, ControlServer
from soulsgui.runner.events import EVENTS_FILE, EventLog, Level
from soulsgui.runner.feed import Feed, Publisher
from soulsgui.runner.jobs import Jobs
from soulsgui.runner.knowledge import Knowledge
from soulsgui.runner.library import Library
from soulsgui.runner.logs import LogFollower
from soulsgui.runner.own_log import OwnLog
from soulsgui.runner.probe import probe_environment
from soulsgui.runner.redis_server import Pinger, RedisServer, ensure_server
from soulsgui.runner.refusal import Result
from soulsgui.runner.roster import Roster
from soulsgui.runner.services import REDIS, RUNNER, TRAINER, redis_spec, server_logs
from soulsgui.runner.supervisor import Supervisor
from soulsgui.runner.watch import ServerReader, Turn
from soulsgui.system import FileLock, atomic_write, free_disk_bytes, make_private, write_private
from soulsgui.wire.api_client import CONTROL_FILE
from soulsgui.wire.control import ControlFile, Job, Params, RunStatus, Snapshot, Status
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.base import Message

logger = logging.getLogger(__name__)

_LOCK_FILE = "runner.lock"
_IDENTITY_FILE = "server.json"
_EVENTS_SHOWN = 200

_HURRIED_S = 0.05
_BUSY_S = 0.1
_IDLE_S = 0.25
_CLIENTS_EVERY_S = 0.5
_SERVER_EVERY_S = 2.0
_PUBLISH_EVERY_S = 0.2


class ServerIdentity(Message):
    """`server.json`: what stays the same over restarts of the runner."""

    server_id: str
    control_port: int = 0


class Runner:
    """The runner of the server in one data folder.

    Args:
        folders: The user's folders.
        settings: The configuration it is started with.
        base: Settings above the user's file, for every run that is started here (`--set`).
        probe: Tells the spaces of an environment.
    """

    def __init__(
        self, folders: Folders, settings: Settings, base: Layer, probe: Probe = probe_environment
    ) -> None:
        self.folders = folders
        self.settings = settings
        self.base = base
        self.started = time.time()
        self.library = Library(folders.runs)
        self.closing = asyncio.Event()
        self.save_at_end = True
        self.feed = Feed(self._snapshot)
        self.publisher = Publisher(self.feed)
        self.jobs = Jobs(self.publisher.job)
        self._probe = probe
        self._cleanup = AsyncExitStack()
        self._hurrying: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._clients_due = 0.0
        self._server_due = 0.0

    # --- opening and closing -----------------------------------------------------------------------

    async def open(self) -> bool:
        """Start Redis and the control API, and take over what an earlier runner left.

        Returns:
            Whether a run was taken over.

        Raises:
            SoulsGuiError: Another runner uses the data folder, Redis can't be started, or the port is taken.
        """
        try:
            self._take_folder()
            server = await asyncio.to_thread(ensure_server, self.folders, self.settings.redis)
            self._connect(server)
            # The port may be taken: known before anything is started or taken over.
            await self._listen()
            await self._start_redis(server)
            adopted = await self.conductor.adopt()
            await self.supervisor.stop_orphans()
            self._announce()
        except BaseException:
            await self._cleanup.aclose()
            raise
        return adopted

    def ask_to_close(self, save: bool = True) -> None:
        """Let the runner end; asked without `save`, it does not wait for a checkpoint."""
        self.save_at_end = self.save_at_end and save
        self.closing.set()

    def hurry(self) -> None:
        """End every service at once, saved or not."""
        names = [service.name for service in self.supervisor.statuses()]
        self._hurrying = asyncio.create_task(self.supervisor.stop(*names, grace_s=0.0))

    async def close(self) -> None:
        """End the run, every service, and the control API; nothing is left behind."""
        try:
            if self.conductor.run is not None:
                await self.conductor.stop(self.save_at_end)
            await self.conductor.close()
        finally:
            self._reader.ending = True
            await self._cleanup.aclose()
            if self._hurrying is not None:
                await self._hurrying

    def _take_folder(self) -> None:
        server_logs(self.folders).mkdir(parents=True, exist_ok=True)
        make_private(self.folders.server)
        lock = FileLock(self.folders.server / _LOCK_FILE)
        if not lock.acquire():
            raise SoulsGuiError(
                f"A runner (process {lock.holder()}) uses {self.folders.data} already.",
                "See it with `soulsgui status`, end it with `soulsgui shutdown`, or use another --data-dir.",
            )
        self._cleanup.callback(lock.release)
        # One that a crashed runner left leads nowhere.
        (self.folders.server / CONTROL_FILE).unlink(missing_ok=True)
        log = OwnLog(server_logs(self.folders) / f"{RUNNER}.log")
        self._cleanup.callback(log.close)
        self._own_log = log
        self.events = EventLog(self.folders.server / EVENTS_FILE, self.publisher.event)

    def _connect(self, server: RedisServer) -> None:
        address = server.address
        self.bus = Bus(address)
        self._cleanup.push_async_callback(asyncio.to_thread, self.bus.close)
        self._reader = ServerReader(address)
        self._reading = ThreadPoolExecutor(1, thread_name_prefix="runner-watch")
        self._cleanup.callback(self._reader.close)
        self._cleanup.push_async_callback(asyncio.to_thread, self._reading.shutdown)
        self._pinger = Pinger(address)
        self._cleanup.push_async_callback(asyncio.to_thread, self._pinger.close)
        self.roster = Roster(Keys(address.prefix))
        self.supervisor = Supervisor(self.folders.server, self._changed.set, self._on_event)
        self.knowledge = Knowledge(self.roster, self.supervisor.pid_of)
        self.conductor = Conductor(
            self.folders,
            self.library,
            self.supervisor,
            self.bus,
            self.knowledge,
            self.events,
            self.base,
            self._probe,
        )
        self._follower = LogFollower({RUNNER: server_logs(self.folders) / f"{RUNNER}.log"})
        self._keep_doing(self._watch(), "watch")
        self._cleanup.push_async_callback(self.supervisor.close)

    def _keep_doing(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)

        async def end() -> None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        self._cleanup.push_async_callback(end)

    async def _start_redis(self, server: RedisServer) -> None:
        spec = redis_spec(server, self.folders, self._pinger.health)
        if not await self.supervisor.adopt(spec):
            await self.supervisor.start(spec)
        if not await self.supervisor.wait_ready(REDIS, spec.start_limit_s):
            raise ServiceError(
                f"Redis ({server.binary.path}) did not answer within {spec.start_limit_s:.0f} s.",
                f"Its log is {spec.log_path}",
            )

    async def _listen(self) -> None:
        identity = self._identity()
        api = ControlServer(self, secrets.token_urlsafe(32))
        await api.start(self.settings.control.port, identity.control_port)
        self._cleanup.push_async_callback(api.close)
        self._cleanup.callback(self.feed.close)
        identity = identity.model_copy(update={"control_port": api.port})
        atomic_write(self.folders.server / _IDENTITY_FILE, identity.to_json().encode())
        self.control = ControlFile(
            host=HOST, port=api.port, token=api.token, server_id=identity.server_id, pid=os.getpid()
        )

    def _announce(self) -> None:
        """Tell where the control API is, now that every command can be carried out."""
        path = self.folders.server / CONTROL_FILE
        write_private(path, self.control.to_json().encode())
        self._cleanup.callback(path.unlink, missing_ok=True)
        self._keep_doing(self._publish(), "publish")

    def _identity(self) -> ServerIdentity:
        path = self.folders.server / _IDENTITY_FILE
        found = ServerIdentity.read(path.read_bytes()) if path.exists() else None
        return found or ServerIdentity(server_id=secrets.token_hex(8))

    # --- while it runs -----------------------------------------------------------------------------

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            now = time.monotonic()
            look = now >= self._clients_due
            if look:
                self._clients_due = now + _CLIENTS_EVERY_S
            turn = await loop.run_in_executor(self._reading, self._reader.turn, look)
            if now >= self._server_due and turn.reachable:
                self._server_due = now + _SERVER_EVERY_S
                self._own_log.keep_small()
                status = await loop.run_in_executor(self._reading, self._reader.server_status)
                free = free_disk_bytes(self.folders.data)
                self.knowledge.server = status.model_copy(update={"disk_free_bytes": free})
            try:
                await self._take(turn)
            except Exception:
                # One bad turn must not make the runner blind.
                logger.exception("what was read from the server could not be used")
            await asyncio.sleep(self._pause_s(turn))

    def look_at_clients(self) -> None:
        """Read the clients at the next turn: something about them was changed."""
        self._clients_due = 0.0

    def _pause_s(self, turn: Turn) -> float:
        if not turn.reachable or self.conductor.hurried:
            return _HURRIED_S
        return _BUSY_S if self.conductor.run is not None else _IDLE_S

    async def _take(self, turn: Turn) -> None:
        now = time.monotonic()
        if turn.reachable != self.knowledge.reachable:
            self._changed.set()
        self.supervisor.server_up = turn.reachable
        writes = self.roster.take(turn, now)
        self.knowledge.take(turn)
        self.bus.resolve(turn.answers)
        self.publisher.rows(turn.rows)
        self.conductor.turn(now, time.time())
        if turn.clients is not None:
            self.publisher.clients(self.roster.statuses(now, self.conductor.node(TRAINER)))
        for write in writes:
            await self.bus.call(write)

    async def _publish(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_PUBLISH_EVERY_S):
                    await self._changed.wait()
            self._changed.clear()
            try:
                self._follow_logs()
                self.publisher.lines(self._follower.poll())
                self.publisher.status(self.status(), time.monotonic())
            except Exception:
                logger.exception("the state could not be published")
            await asyncio.sleep(_PUBLISH_EVERY_S / 2)

    def _follow_logs(self) -> None:
        for service in self.supervisor.statuses():
            self._follower.follow(service.name, self.supervisor.spec_of(service.name).log_path)

    def _on_event(self, level: Level, what: str, cause: str, remedy: str, service: str) -> None:
        run = self.conductor.run if hasattr(self, "conductor") else None
        run_id = run.run_id if run is not None and service != REDIS else ""
        self.events.add(level, what, cause, remedy, service, run_id)

    # --- what the control API needs ----------------------------------------------------------------

    def status(self) -> Status:
        """Return everything at this moment."""
        server = self.knowledge.server.model_copy(update={"reachable": self.knowledge.reachable})
        return Status(
            run=RunStatus.model_validate(self.conductor.record.model_dump()),
            services=self.supervisor.statuses(),
            clients=self.roster.statuses(time.monotonic(), self.conductor.node(TRAINER)),
            server=server,
        )

    def _snapshot(self, cursor: int) -> Snapshot:
        return Snapshot(cursor=cursor, status=self.status(), events=self.events.newest(_EVENTS_SHOWN))

    def job(self, job_id: str) -> Job | None:
        """Return a job."""
        return self.jobs.get(job_id)

    async def command(self, name: str, params: Params) -> Result:
        """Carry out a command and return its result."""
        work = HANDLERS[name](self, params)
        if name in LONG:
            return await self.jobs.run(name, work, LONG[name])
        return await work
