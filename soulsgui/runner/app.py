"""The runner of a server: everything put together, opened in order and closed in order."""

import asyncio
import contextlib
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import redis

from soulsgui.config.errors import ConfigError
from soulsgui.config.layers import combine, layers_of
from soulsgui.config.parsing import Layer
from soulsgui.config.paths import Folders
from soulsgui.config.schema import Settings
from soulsgui.errors import ServiceError
from soulsgui.process import child_env, own_command
from soulsgui.runner.access.access_control import AccessControl, LocalClients, user_lines
from soulsgui.runner.access.invitations import Invitations
from soulsgui.runner.access.roster import ClientNames, ClientRoster
from soulsgui.runner.alerts import Alerts
from soulsgui.runner.api import client_commands, library_commands, run_commands
from soulsgui.runner.base import BaseRunner
from soulsgui.runner.resources import ResourceMeter
from soulsgui.runner.run.checkpoints import Checkpoints
from soulsgui.runner.run.history import server_logs
from soulsgui.runner.run.library import Library
from soulsgui.runner.run.manager import RunManager
from soulsgui.runner.run.services import RunContext, binding_of, node_health
from soulsgui.runner.run.start import Probe, probe_environment
from soulsgui.runner.run.sweep import Sweeps
from soulsgui.runner.run.trash import Bin
from soulsgui.runner.server.binary import loss_at_start
from soulsgui.runner.server.bus import Bus
from soulsgui.runner.server.connection_guard import ConnectionGuard
from soulsgui.runner.server.disk_guard import DiskGuard
from soulsgui.runner.server.health import Pinger
from soulsgui.runner.server.memory_guard import LOOK_EVERY_S, MemoryGuard
from soulsgui.runner.server.reader import ServerReader, ServerState, Turn
from soulsgui.runner.server.redis_server import REDIS, RedisServer, ensure_server
from soulsgui.runner.services.outcome import DISK_FULL
from soulsgui.runner.services.service import Health, ServiceSpec
from soulsgui.system import free_disk_bytes
from soulsgui.wire.beats import LOST_S
from soulsgui.wire.connection import AWAY
from soulsgui.wire.control import ClientStatus, Event, RunStatus, Status
from soulsgui.wire.keys import EXPORTER, GATEWAY, TRAINER, Keys
from soulsgui.wire.messages.metrics import ROW_FIELD, STREAM_LENGTH, ResourceRow

logger = logging.getLogger(__name__)

_IDENTITY_FILE = "server.json"
_REMEDY = "See it with `soulsgui status`, end it with `soulsgui shutdown`, or use another --data-dir."

_VERIFY_FIRST_S, _VERIFY_EVERY_S = 600.0, 86_400.0
_HURRIED_S = 0.05
_RESOURCES_LOOK_S = 1.0
_BUSY_S = 0.1
_IDLE_S = 0.5
_CLIENTS_EVERY_S = 0.5
_SERVER_EVERY_S = 2.0
_DISK_EVERY_S = 2.0
_REDIS_LIMIT_S = 60.0
_SWEEP_EVERY_S = 0.5
_ALERTS_EVERY_S = 0.5
_AGAIN_S = 60.0  # whatever made it fail may be over: nothing works without it
_NAMED = 3
_FAILS_AGAIN = 3  # so often an environment was made anew, and it is told


class Runner(BaseRunner):
    """The runner of the server in one data folder.

    `base` are settings above the user's file (`--set`), for every run that is started here; `probe` tells the
    spaces of an environment.
    """

    role = "server"
    handlers = run_commands.HANDLERS | library_commands.HANDLERS | client_commands.HANDLERS
    checks = run_commands.CHECKS | library_commands.CHECKS | client_commands.CHECKS

    def __init__(
        self, folders: Folders, settings: Settings, base: Layer, probe: Probe = probe_environment
    ) -> None:
        super().__init__(folders, folders.server, _IDENTITY_FILE)
        self.settings = settings
        self.base = base
        self.library = Library(folders.runs)
        self.bin = Bin(folders.trash, self.library)
        self.alerts = Alerts(settings.alerts)
        self.reaching = asyncio.Lock()  # held by who changes where other computers come in
        self._probe = probe
        self._clients_due = 0.0
        self._failing: set[str] = set()  # the clients whose environments were told to fail
        self._server_due = self._resources_due = 0.0
        self._resources = ResourceMeter()
        self._ending = False
        self._alerts_read: tuple[int, int, int] | None = None  # the user's file, as it was read
        self._damaged: set[str] | None = None  # checkpoints, by their folders; None before the first look

    async def open(self, holds_queue: bool = False) -> bool:
        """Start Redis and the control API, and take over what an earlier runner left; tell whether a run was.

        With `holds_queue` no run of its queue begins before that is taken back (`RunManager.holds_queue`).
        Another runner of the data folder, a Redis that can't be started, or a port that is taken is an error.
        """
        try:
            self._take_folder("A runner", _REMEDY)
            await asyncio.to_thread(self.bin.clear)
            self._keep_doing(self.alerts.send_waiting, "alerts")
            self._keep_doing(self._read_alerts, "settings of alerts", _ALERTS_EVERY_S)
            invitations = self._invitations()
            self.client_names = ClientNames(self.folders.client_names)
            users = user_lines(invitations.hashes, self.settings.redis.prefix)
            server = await asyncio.to_thread(ensure_server, self.folders, self.settings.redis, users)
            self._connect(server, invitations)
            # The port may be taken: known before anything is started or taken over.
            await self._listen(self.settings.control.port)
            await self.access.prepare()
            await self._start_redis(server)
            # One that an earlier runner left knows whom that one let in.
            await self.access.look()
            await self.start_gateway()
            await self._start_exporter()
            adopted = await self.run_manager.adopt()
            await asyncio.to_thread(self.library.clear, self.run_manager.run)
            await self.sweeps.workers.adopt()
            await self.supervisor.stop_orphans()
            if not self.sweeps.goes_on:
                await self.sweeps.workers.clear()
            self.run_manager.holds_queue = holds_queue
            self._announce()
        except BaseException:
            await self._cleanup.aclose()
            raise
        return adopted

    async def close(self) -> None:
        """End the run, saved if it can be, every service, and the control API; nothing is left behind."""
        self.run_manager.closing = True
        try:
            if self.run_manager.run is not None:
                await self.run_manager.stop(self.save_at_end, evaluate=False)
        finally:
            await self.run_manager.close()
            await self.access.leave()
            self._ending = True
            await self._clean_up()

    def hurry(self) -> None:
        """End every service at once, saved or not."""
        if (session := self.run_manager.session) is not None:
            session.hurry()
        super().hurry()

    def _end_by_force(self) -> None:
        try:
            self.supervisor.kill_all()  # first the workers, so that they start nothing again
            self.sweeps.workers.kill_left()
        finally:
            super()._end_by_force()

    def _invitations(self) -> Invitations:
        found = Invitations(self.folders.invited)
        if found.damage:
            self.events.add(
                "error",
                "The list of invited clients is lost: none of them is let in.",
                cause=found.damage,
                remedy="Invite them again: soulsgui invite NAME",
            )
        return found

    def _connect(self, server: RedisServer, invitations: Invitations) -> None:
        self._address = address = server.address
        self.bus = Bus(address)
        self._cleanup.push_async_callback(asyncio.to_thread, self.bus.close)
        self._reader = ServerReader(address, lambda: self._ending or self.supervisor.stopped(REDIS))
        self._reading = ThreadPoolExecutor(1, thread_name_prefix="runner-watch")
        self._cleanup.callback(self._reader.close)
        self._cleanup.push_async_callback(asyncio.to_thread, self._reading.shutdown)
        self._pinger = Pinger(address)
        self._crowded = False
        self._unreached = ""  # why the invited can't come in everywhere
        self._cleanup.push_async_callback(asyncio.to_thread, self._pinger.close)
        self.roster = ClientRoster(Keys(address.prefix))
        local = LocalClients(self.folders.server, address)
        self.access = AccessControl(
            server, invitations, local, self.bus, self.events, self.roster.set_invited
        )
        self.server_state = ServerState(self.supervisor.pid_of)
        context = RunContext(
            self.folders,
            self.library,
            self.supervisor,
            self.bus,
            self.roster,
            self.server_state,
            self.events,
            self._probe,
            self.access.let_own_in,
        )
        self.run_manager = RunManager(context, self.base)
        self.memory = MemoryGuard(
            self.bus,
            self.events,
            lambda: sorted(self.roster.ids()),
            lambda: self.supervisor.running(TRAINER),
            lambda: self._run_of(REDIS),
        )
        self.disk = DiskGuard(
            self.bus,
            self.events,
            self.folders.data,
            lambda folder: free_disk_bytes(folder),
            self._checkpoint_bytes,
            lambda: self._run_of(REDIS),
        )
        self.connections = ConnectionGuard(self.bus, self.events, self.access, self.memory.cut_off)
        self.sweeps = Sweeps(context, self.run_manager, self.base)
        self._keep_doing(self._watch, "watch")
        self._keep_doing(self._note_resources, "resources", _RESOURCES_LOOK_S)
        self._keep_doing(self.sweeps.turn, "the sweep", _SWEEP_EVERY_S)
        self._keep_doing(self._guard_memory, "memory", LOOK_EVERY_S)
        self._keep_doing(self._guard_disk, "disk", _DISK_EVERY_S)
        self._keep_doing(self._verify_checkpoints, "verifying checkpoints", 0.0)
        self._cleanup.callback(self.sweeps.workers.kill_left)
        self._cleanup.push_async_callback(self.supervisor.close)

    async def _start_redis(self, server: RedisServer) -> None:
        spec = ServiceSpec(
            name=REDIS,
            kind="redis",
            argv=server.argv,
            tier=0,
            log_path=server_logs(self.folders) / "redis.log",
            health=self._redis_health,
            start_limit_s=_REDIS_LIMIT_S,
            retry_s=_AGAIN_S,
            repair=server.repair,
            remark=loss_at_start,
        )
        if not await self.supervisor.adopt(spec):
            await self.supervisor.start(spec)
        if not await self.supervisor.wait_ready(REDIS, _REDIS_LIMIT_S):
            outcome = self.supervisor.outcome_of(REDIS)
            if outcome is not None and outcome.cause == DISK_FULL:
                raise ServiceError(
                    f"Redis can't be started: the disk of {self.folders.data} is full.",
                    "Free some space there, then start the server again: nothing that it holds is lost.",
                )
            raise ServiceError(
                f"Redis ({server.argv[0]}) did not answer within {_REDIS_LIMIT_S:.0f} s.",
                f"Its log is {spec.log_path}",
            )

    async def start_gateway(self) -> None:
        """Start the gateway, or take it over, once somebody may come in there."""
        if not (self.access.lan or self.access.invitations.hashes):
            return
        server, server_file = self.access.server, self.folders.server_address
        reach = [option for option, on in (("--lan", server.lan), ("--public", server.public)) if on]
        look = node_health(GATEWAY, self.server_state)
        spec = ServiceSpec(
            name=GATEWAY,
            kind=GATEWAY,
            argv=(*own_command(GATEWAY), "--server-file", str(server_file), *reach),
            tier=0,
            log_path=server_logs(self.folders) / "gateway.log",
            health=lambda: replace(look(), phase=""),  # it does one thing alone
            port=server.address.port,
            retry_s=_AGAIN_S,
            binding=binding_of(server_file),
            env=child_env(),
        )
        if not await self.supervisor.adopt(spec):
            await self.supervisor.start(spec)

    async def _start_exporter(self) -> None:
        """Start what Prometheus and Grafana read, or take it over, where it is wanted."""
        wanted = self.settings.exporter
        if not wanted.enabled:
            return
        places = ("--config-dir", str(self.folders.config), "--data-dir", str(self.folders.data))
        told = [f"exporter.{name}={value}" for name, value in wanted.model_dump().items()]
        spec = ServiceSpec(
            name=EXPORTER,
            kind=EXPORTER,
            argv=(*own_command(EXPORTER), *places, *(word for one in told for word in ("--set", one))),
            tier=2,
            log_path=server_logs(self.folders) / "exporter.log",
            health=node_health(EXPORTER, self.server_state),
            port=wanted.port,
            retry_s=_AGAIN_S,
            binding=binding_of(self.folders.server_address),
            env=child_env(),
        )
        if not await self.supervisor.adopt(spec):
            await self.supervisor.start(spec)

    def _redis_health(self) -> Health:
        health = self._pinger.health()
        return replace(health, detail=health.detail or self.memory.words)

    async def _guard_memory(self) -> None:
        if self.server_state.reachable:
            await self.connections.look()
            await self.memory.look()

    async def _guard_disk(self) -> None:
        await self.disk.look(self.server_state.reachable and self.supervisor.running(TRAINER))

    def _checkpoint_bytes(self) -> int:
        run = self.run_manager.run
        with contextlib.suppress(FileNotFoundError):  # another one takes its place
            return sum(file.stat().st_size for file in run.checkpoint.glob("*")) if run is not None else 0
        return 0

    async def _verify_checkpoints(self) -> None:
        """Once a day read every checkpoint anew: what lies on a disk may change without anybody's doing."""
        await asyncio.sleep(_VERIFY_EVERY_S if self._damaged is not None else _VERIFY_FIRST_S)
        told, self._damaged = self._damaged or set(), set()
        for run in await asyncio.to_thread(self.library.folders):
            for info in await asyncio.to_thread(Checkpoints().list, run):
                if not info.valid:
                    self._damaged.add(info.path)
                if not info.valid and info.path not in told:
                    remedy = "Check the disk of the data folder. A resumed run uses the newest valid one."
                    words = f"The checkpoint {info.id} of {run.run_id} is damaged"
                    self.events.add("error", words, info.error, remedy, run_id=run.run_id)

    async def _read_alerts(self) -> None:
        """Take the settings of alerts from the user's file again when that has changed, and is right."""
        try:
            found = self.folders.overrides.stat()
        except OSError:
            stamp = None
        else:
            stamp = found.st_mtime_ns, found.st_size, found.st_ino
        if stamp != self._alerts_read:
            self._alerts_read = stamp
            with contextlib.suppress(ConfigError):  # the page of the configuration tells what is wrong
                settings = await asyncio.to_thread(lambda: combine(layers_of(self.folders, "", [self.base])))
                self.alerts.settings = settings.alerts

    async def _note_resources(self) -> None:
        """Put what services and machine use on the curves of the run, where that is due."""
        now, session = time.monotonic(), self.run_manager.session
        every_s = 0.0 if session is None else session.settings.telemetry.resources_every_s
        if session is None or not every_s or now < self._resources_due or not self.server_state.reachable:
            return
        self._resources_due = now + every_s
        used = await asyncio.to_thread(self._resources.measure, self.supervisor.statuses(), now)
        run, key = session.record, Keys(self._address.prefix).metrics
        row = ResourceRow(
            run_id=run.id,
            attempt=run.attempt,
            update=run.updates,
            env_steps=run.env_steps,
            episodes=run.episodes,
            model_id=run.model_id,
            time=time.time(),
            values=used,
        )
        try:
            await self.bus.call(
                lambda server: server.xadd(key, {ROW_FIELD: row.to_json()}, maxlen=STREAM_LENGTH)
            )
        except redis.RedisError as error:  # away, or without room: that is told elsewhere
            logger.info("the use of resources is not on the curves: %s", error)

    async def _watch(self) -> None:
        while True:
            pause_s = _IDLE_S
            turn = None
            try:
                turn = await self._read()
                pause_s = self._pause_s(turn)
                await self._take(turn)
            except Exception:
                # One bad turn must not make the runner blind; nobody is killed for what we could not read.
                if turn is None:
                    self.supervisor.context.server_up = False
                logger.exception("what was read from the server could not be used")
            await asyncio.sleep(pause_s)

    async def _read(self) -> Turn:
        loop = asyncio.get_running_loop()
        now = time.monotonic()
        if look := now >= self._clients_due:
            self._clients_due = now + _CLIENTS_EVERY_S
        turn = await loop.run_in_executor(self._reading, self._reader.turn, look)
        if now >= self._server_due and turn.reachable:
            self._server_due = now + _SERVER_EVERY_S
            status = await loop.run_in_executor(self._reading, self._reader.server_status)
            free = free_disk_bytes(self.folders.data)
            self.server_state.server = status.model_copy(update={"disk_free_bytes": free})
        return turn

    def look_at_clients(self) -> None:
        """Read the clients at the next turn: something about them was changed."""
        self._clients_due = 0.0

    def _pause_s(self, turn: Turn) -> float:
        if not turn.reachable or self.run_manager.hurried:
            return _HURRIED_S
        return _BUSY_S if self.run_manager.run is not None else _IDLE_S

    async def _take(self, turn: Turn) -> None:
        now = time.monotonic()
        if turn.reachable != self.server_state.reachable:
            self._changed.set()
        if turn.reachable:
            await self.access.look()
        else:
            self.access.lost()
        self._look_at_disk()
        self._look_at_crowd()
        self._look_at_gateway()
        takes_writes = not (self.server_state.disk_full or self._crowded or self.memory.refuses)
        self.supervisor.context.server_up = turn.reachable and takes_writes
        writes = self.roster.take(turn, now)
        self.server_state.take(turn)
        self.bus.resolve(turn.answers)
        self.publisher.rows(turn.rows)
        if (session := self.run_manager.session) is not None:
            session.take_rows(turn.rows)
        self.run_manager.turn(now, time.time())
        self.alerts.look(self.run_manager.record, now, self.events)
        if turn.clients is not None:
            self._tell_of_cut_off()
            self._tell_of_lost(now)
            clients = self._clients(now)
            self._tell_of_failing(clients)
            self.publisher.clients(clients)
        with contextlib.suppress(*AWAY):  # the next turn tells of it, and asks for the same again
            for write in writes:
                await self.bus.call(write)

    def _clients(self, now: float) -> list[ClientStatus]:
        found = self.roster.statuses(now, self.run_manager.node(TRAINER), self.run_manager.record.id)
        names, allowed = self.client_names, self.permissions.of_client
        return [
            client.model_copy(update={"name": names.of(client.id), "allowed": allowed(self, client.id)})
            for client in found
        ]

    def _tell_of_cut_off(self) -> None:
        """Tell who was cut off for what it sent; of those who held too much memory its guard tells."""
        for client, reason in self.roster.news_of_cut_off():
            if not self.memory.has_told_of(client, reason):
                # What an outlier sent was in order: nothing of it is kept.
                kept = f"See what it sent: soulsgui clients rejects {client}. " if "refused" in reason else ""
                remedy = (
                    f"{kept}To let it send again: "
                    f"soulsgui clients release {client}. To keep it out: soulsgui revoke {client}"
                )
                cause = "Nothing from it is accepted any more."
                self._on_event("warning", f"{client} was cut off: {reason}.", cause, remedy, TRAINER)

    def _tell_of_lost(self, now: float) -> None:
        """Report lost and returned clients as events; many at once become one event."""
        lost, back = self.roster.news_of_lost(now)
        if lost:
            cause = f"No sign of life for {LOST_S:.0f} s, and it did not say goodbye."
            remedy = "Check that its computer is on and can reach this one; it then joins again by itself."
            what, run = f"{self._called(lost)} lost.", self._run_of(TRAINER)
            self.events.add("warning", what, cause, remedy, TRAINER, run, "client_lost")
        if back:
            self._on_event("info", f"{self._called(back)} back.", "", "", TRAINER)

    def _tell_of_failing(self, clients: list[ClientStatus]) -> None:
        """Report once whose environments fail again and again; many at once become one event."""
        failing = {one.id: one.error for one in clients if one.env_restarts >= _FAILS_AGAIN}
        if new := [client for client in failing if client not in self._failing]:
            what = f"{self._called(new)} making the environment again and again: it fails."
            remedy = f"Its traceback is shown with the client, and in its log: soulsgui logs {new[0]}"
            self._on_event("warning", what, failing[new[0]], remedy, TRAINER)
        self._failing = set(failing)

    def _called(self, clients: list[str]) -> str:
        names = [self.client_names.of(client) for client in clients[:_NAMED]]
        more = f" and {len(clients) - _NAMED} more" if len(clients) > _NAMED else ""
        return f"{', '.join(names)}{more} {'is' if len(clients) == 1 else 'are'}"

    def _look_at_disk(self) -> None:
        """Tell when the server begins, and when it ceases, to refuse writes because of its disk."""
        full = self._pinger.health().disk_full
        if full == self.server_state.disk_full:
            return
        self.server_state.disk_full = full
        self._changed.set()
        if full:
            remedy = "Free some space; training continues by itself."
            what, run = "The disk is full: Redis refuses to write.", self._run_of(REDIS)
            self.events.add("error", what, "", remedy, REDIS, run, "disk_low")
        else:
            self._on_event("info", "Redis writes again: the disk has space.", "", "", REDIS)

    def _look_at_crowd(self) -> None:
        """Tell when there begins, and when there ceases, to be no room for a connection to the server."""
        health = self._pinger.health()
        if health.crowded == self._crowded:
            return
        self._crowded = health.crowded
        if self._crowded:
            remedy = "Find the program that opens so many, and close it; training continues by itself."
            self._on_event("warning", "Redis accepts no connections.", health.detail, remedy, REDIS)
        else:
            self._on_event("info", "Redis accepts connections again.", "", "", REDIS)

    def _look_at_gateway(self) -> None:
        """Tell when the invited can't come in everywhere, though they should, and when they can again."""
        state = self.server_state.node(GATEWAY)
        if state is not None and state.error != self._unreached:
            self._unreached = state.error
            if state.error:
                remedy = "Fix the cause; the server tries again every few seconds."
                self._on_event(
                    "warning", "Invited clients can't connect at every address.", state.error, remedy, GATEWAY
                )
            else:
                self._on_event("info", "Invited clients can connect at every address again.", "", "", GATEWAY)

    def _noted(self, event: Event) -> None:
        super()._noted(event)
        self.alerts.take(event)

    def _run_of(self, service: str) -> str:
        run = self.run_manager.run
        return run.run_id if run is not None else ""

    @property
    def _busy(self) -> bool:
        return self.run_manager.run is not None

    def status(self, with_clients: bool = True) -> Status:
        """Return everything at this moment, or all but the clients, of whom there may be many."""
        server = self.server_state.server.model_copy(update={"reachable": self.server_state.reachable})
        return Status(
            run=RunStatus.model_validate(self.run_manager.record.model_dump()),
            services=[
                service.model_copy(update={"allowed": self.permissions.of_service(self, service.name)})
                for service in self.supervisor.statuses()
            ],
            clients=self._clients(time.monotonic()) if with_clients else [],
            server=server,
            queue=self.run_manager.queued(),
            allowed=self.permissions.of_all(self),
        )
