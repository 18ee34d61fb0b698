"""Starts services, watches them, starts them again, adopts them from an earlier runner, ends them."""

import asyncio
import logging
import random
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from soulsgui.errors import ServiceError
from soulsgui.runner.services.outcome import Outcome, RestartLimits
from soulsgui.runner.services.processes import Adopted, Identities, ServiceRecord, UsageMeter
from soulsgui.runner.services.service import OnEvent, Service, ServiceContext, ServiceSpec
from soulsgui.wire.control import ServiceStatus

logger = logging.getLogger(__name__)

_FAST_STEP_S = 0.05
_SLOW_STEP_S = 0.25
# A pause longer than this between two steps means that we slept, not that the services did.
_SLEPT_S = 2.0
_LOG_AGAIN_S = 10.0
_CLOSE_S = 12.0
_STRAY_GRACE_S = 4.0
_STRAY_END_S = 4.0


class Supervisor:
    """Keeps the services of one runner as they are wished to be.

    All methods are called in one event loop. Callbacks are called there too and must not block: `on_change`
    when something in `statuses()` changed, `on_event` with what is worth knowing tomorrow morning.
    """

    def __init__(
        self,
        state_dir: Path,
        on_change: Callable[[], None],
        on_event: OnEvent,
        limits: RestartLimits | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._identities = Identities(state_dir)
        # What its services share; whether the Redis server is up is kept there by the owner.
        self.context = ServiceContext(
            self._identities, limits or RestartLimits(), on_event, rng or random.Random()
        )
        self._on_change = on_change
        self._services: dict[str, Service] = {}
        self._starting: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._stop_wishes: defaultdict[str, int] = defaultdict(int)
        self._usage = UsageMeter()
        self._loop: asyncio.Task[None] | None = None
        self._turn = asyncio.Event()
        self._wake = asyncio.Event()
        self._stepped_at = time.monotonic()
        self._log_cuts: dict[str, asyncio.Task[None]] = {}
        self._closing = False

    async def start(self, spec: ServiceSpec) -> None:
        """Start a service and return once its process exists; one that is up already is left alone.

        Earlier failures no longer count; one that is stopping is waited for and started anew. A process that
        an earlier runner left under this name and nobody adopted is ended first.
        """
        await self._start(spec, self._stop_wishes[spec.name])

    async def _start(self, spec: ServiceSpec, stop_wishes: int) -> None:
        async with self._starting[spec.name]:
            if (known := self._services.get(spec.name)) is not None:
                await self._until(lambda: known.state != "stopping")
                if known.state in ("starting", "running"):
                    return
            strays = [record for record in self.orphans() if record.name == spec.name]
            await self._end_strays(strays, max(spec.grace_s, _STRAY_GRACE_S))
            if self._closing:
                raise ServiceError(f"{spec.name} is not started: everything is being ended.")
            if self._stop_wishes[spec.name] != stop_wishes:
                raise ServiceError(f"{spec.name} is not started: it was asked to stop meanwhile.")
            service = self._known_as(spec)
            try:
                service.start(time.monotonic())
            finally:
                self._stir()

    async def wait_ready(self, name: str, timeout_s: float) -> bool | None:
        """Wait until a service does its work, through restarts; False: too late, None: stopped or restarted.

        One that failed for good or ended by itself is a `ServiceError`, with the cause and its last lines.
        """
        service = self._service(name)
        if not await self.wait_until(lambda: service.state not in ("starting", "backoff"), timeout_s):
            return False
        outcome = service.outcome
        if service.state in ("failed", "stopped") and (outcome is None or not outcome.asked_to_stop):
            words = outcome.words if outcome is not None else "it was never started"
            if outcome is not None and outcome.hopeless:  # the log tells no more than the words
                raise ServiceError(f"{name} did not become ready: {words}", outcome.remedy)
            lines = "".join(f"\n    {line}" for line in service.last_lines[-10:])
            raise ServiceError(
                f"{name} did not become ready: {words}{lines}", f"Read its log: soulsgui logs {name}"
            )
        return service.state == "running" or None

    async def wait_until(self, done: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until something is true, asked after every look at the services; False after the limit."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._until(done)
        except TimeoutError:
            return False
        return True

    async def stop(self, *names: str, grace_s: float | None = None) -> None:
        """Ask services to stop, all together, and return when they have ended; they are not started again.

        One that is not known or not up is left alone. They are killed after `grace_s`, or each after its own.
        """
        for name in names:
            self._stop_wishes[name] += 1
        await self._stop(names, grace_s)

    async def _stop(self, names: Sequence[str], grace_s: float | None = None) -> None:
        services = [self._services[name] for name in names if name in self._services]
        # The processes of this moment: what others start afterwards is not waited for.
        asked = [(service, service.starts) for service in services]
        for service in services:
            service.ask_to_stop(time.monotonic(), grace_s)
        self._stir()
        await self._until(
            lambda: not any(service.active and service.starts == starts for service, starts in asked)
        )

    async def restart(self, name: str) -> None:
        """Stop a service, if it is up, and start it again, unless somebody else asks it to stop meanwhile."""
        spec = self._service(name).spec
        stop_wishes = self._stop_wishes[name]
        await self._stop([name])
        await self._start(spec, stop_wishes)

    async def remove(self, *names: str) -> None:
        """Stop services and forget them."""
        await self.stop(*names)
        for name in names:
            if self._services.pop(name, None) is not None:
                self._changed()

    def kill_all(self) -> None:
        """End every process at once and wait for none; nothing is supervised afterwards."""
        self._closing = True
        for service in list(self._services.values()):
            service.kill()

    async def close(self) -> None:
        """End everything, higher tiers first, within 15 s (60 s where one is saving); nothing is left."""
        self._closing = True
        deadline = time.monotonic() + _CLOSE_S
        tiers = sorted({service.spec.tier for service in self._services.values()}, reverse=True)
        for index, tier in enumerate(tiers):
            share_s = max(0.0, deadline - time.monotonic()) / (len(tiers) - index)
            members = [service.spec for service in self._services.values() if service.spec.tier == tier]
            await asyncio.gather(
                *(self.stop(spec.name, grace_s=min(spec.grace_s, share_s)) for spec in members)
            )
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)
            self._loop = None
        for cut in list(self._log_cuts.values()):
            cut.cancel()
        await asyncio.gather(*self._log_cuts.values(), return_exceptions=True)

    async def adopt(self, spec: ServiceSpec) -> bool:
        """Take over the process that an earlier runner started for this service; return whether there is one.

        It lives, is the very process that was recorded, has this command line, and is not supervised already.
        """
        known = self._services.get(spec.name)
        if known is not None and known.active:
            return False
        record = self._identities.read(spec.name)
        if record is None or not record.lives():
            return False
        if (record.argv, record.binding) != (spec.argv, spec.binding):
            other = "has another command line" if record.argv != spec.argv else "works for another server"
            logger.info("%s of an earlier runner %s: not adopted", spec.name, other)
            return False
        self._known_as(spec).adopt(record, time.monotonic())
        self._stir()
        return True

    def recover(self) -> None:
        """Find the processes that an earlier runner started and had no time to record; call it first."""
        for record in self._identities.recover():
            logger.warning("%s (process %d) was started by a runner that was killed", record.name, record.pid)

    def orphans(self) -> list[ServiceRecord]:
        """Return the records whose process lives and is not supervised here."""
        ours = {service.pid for service in self._services.values()}
        return [record for record in self._identities.all() if record.pid not in ours and record.lives()]

    async def stop_orphans(self) -> None:
        """End the processes that an earlier runner left and nobody adopted; forget those that have ended."""
        await self._end_strays(self.orphans())
        for record in self._identities.all():
            if not record.lives():
                self._identities.forget(record.name)

    async def _end_strays(self, records: Sequence[ServiceRecord], grace_s: float = _STRAY_GRACE_S) -> None:
        strays = [Adopted(record) for record in records]
        for stray in strays:
            stray.terminate()
        await _ended(strays, grace_s)
        for stray in strays:
            stray.kill()
        # The next process of this name may need what it holds: its port, its files.
        await _ended(strays, _STRAY_END_S)
        for record in records:
            self._identities.forget(record.name)
            logger.info("ended %s (process %d), which an earlier runner left", record.name, record.pid)

    def statuses(self) -> list[ServiceStatus]:
        """Return the state of every service, by tier and in the order they were first started."""
        services = sorted(self._services.values(), key=lambda service: service.spec.tier)
        usage = self._usage.measure([service.pid for service in services if service.pid is not None])
        now = time.monotonic()
        return [service.status(now, usage) for service in services]

    def spec_of(self, name: str) -> ServiceSpec:
        """Return what a service was started as."""
        return self._service(name).spec

    def running(self, name: str) -> bool:
        """Whether a service is up and does its work."""
        service = self._services.get(name)
        return service is not None and service.state == "running"

    def stopped(self, name: str) -> bool:
        """Whether a service was asked to stop, and has not been started since."""
        service = self._services.get(name)
        return service is not None and service.state in ("stopping", "stopped")

    def pid_of(self, name: str) -> int | None:
        """Return the process of a service; None while it has none."""
        service = self._services.get(name)
        return service.pid if service is not None else None

    def outcome_of(self, name: str) -> Outcome | None:
        """Return how the last process of a service ended; None while none has."""
        service = self._services.get(name)
        return service.outcome if service is not None else None

    def _service(self, name: str) -> Service:
        if name not in self._services:
            known = ", ".join(sorted(self._services)) or "none"
            raise ServiceError(f"There is no service “{name}”.", f"Known services: {known}")
        return self._services[name]

    def _known_as(self, spec: ServiceSpec) -> Service:
        service = self._services.get(spec.name)
        if service is None or service.spec != spec:
            service = self._services[spec.name] = Service(spec, self.context)
        return service

    def _stir(self) -> None:
        """Make the loop look at once: something was started or asked to stop."""
        if self._loop is None:
            self._stepped_at = time.monotonic()
            self._loop = asyncio.get_running_loop().create_task(self._keep_stepping(), name="supervisor")
        self._wake.set()
        self._changed()

    async def _until(self, done: Callable[[], bool]) -> None:
        while not done():
            await self._turn.wait()

    async def _keep_stepping(self) -> None:
        while True:
            self._step(time.monotonic())
            self._turn.set()
            self._turn = asyncio.Event()
            moving = any(
                service.state in ("starting", "stopping", "backoff") for service in self._services.values()
            )
            try:
                async with asyncio.timeout(_FAST_STEP_S if moving else _SLOW_STEP_S):
                    await self._wake.wait()
            except TimeoutError:
                continue
            self._wake.clear()

    def _step(self, now: float) -> None:
        slept_s, self._stepped_at = now - self._stepped_at, now
        changed = False
        for service in list(self._services.values()):
            before = service.look
            try:
                if slept_s > _SLEPT_S:
                    service.unobserved(slept_s)
                service.step(now)
                if service.pid is not None and service.log.too_large:
                    self._cut_log(service)
            except Exception:
                # Whatever went wrong with one service, the others go on being supervised.
                logger.exception("supervising %s failed", service.spec.name)
            changed = changed or service.look != before
        if changed:
            self._changed()

    def _cut_log(self, service: Service) -> None:
        """Set its log aside in a thread, where that is not under way."""
        name = service.spec.name
        if name not in self._log_cuts:
            cut = asyncio.get_running_loop().create_task(self._keep_log_small(service))
            self._log_cuts[name] = cut
            cut.add_done_callback(lambda _: self._log_cuts.pop(name, None))

    async def _keep_log_small(self, service: Service) -> None:
        try:
            await asyncio.to_thread(service.log.cut_if_large)
        except OSError as error:
            # That is told once in a while, not all the time.
            logger.warning("the log of %s can't be set aside: %s", service.spec.name, error)
            await asyncio.sleep(_LOG_AGAIN_S)

    def _changed(self) -> None:
        try:
            self._on_change()
        except Exception:
            # Supervision goes on also when nobody can be told of it.
            logger.exception("telling of a change failed")


async def _ended(processes: Sequence[Adopted], limit_s: float) -> None:
    """Wait until they have ended, for a while at most."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline and not all(process.ended() for process in processes):
        await asyncio.sleep(_FAST_STEP_S)
