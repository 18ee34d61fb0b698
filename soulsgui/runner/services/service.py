"""What a service is, what its health check says, and the states one supervised service goes through.

    stopped ─start─▶ starting ─ready─▶ running ─ended by itself─▶ backoff ─pause over─▶ starting
       ▲                │                 │                          └─too often─▶ failed ─retry_s─▶ starting
       └──── ended ──── stopping ◀──stop──┘

`Service` is moved on by `step()`, which the supervisor calls several times a second; it never waits.
"""

import logging
import math
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast, get_args

from soulsgui.errors import ServiceError
from soulsgui.runner.events import Level
from soulsgui.runner.services.logs import LogFile, lines_since_start, refusal_words
from soulsgui.runner.services.outcome import (
    DISK_FULL,
    QUIET_END,
    Outcome,
    RestartHistory,
    RestartLimits,
    duration_words,
    evidence,
    outcome_of_code,
)
from soulsgui.runner.services.processes import (
    TOKEN,
    Adopted,
    Identities,
    OwnChild,
    ServiceRecord,
    Usage,
    system_memory_kills,
)
from soulsgui.system import free_disk_bytes, no_room
from soulsgui.wire.control import ServiceState, ServiceStatus
from soulsgui.wire.keys import TRAINER
from soulsgui.wire.messages.node import NodePhase

logger = logging.getLogger(__name__)

SERVER_KIND = "redis"  # kind of the service without which nobody else's signs of life can be seen

LONG_PHASES_S: Mapping[str, float] = {"loading": 300.0, "compiling": 600.0, "saving": 300.0}
"""Phases during which a node may be silent for longer than usual, seconds."""

_PHASES: frozenset[str] = frozenset(get_args(NodePhase))


@dataclass(frozen=True)
class Health:
    """The health of a running service."""

    ready: bool  # Whether it does its work (or waits for work)
    # Moves while it is alive, and must have moved once before a new process counts as ready; None where
    # nothing tells: then being ready is the sign of life.
    tick: int | None = None
    phase: str = ""  # What it is doing, a `NodePhase` or empty
    detail: str = ""  # The same in words
    farewell: str = ""  # What it said before a clean end
    error: str = ""  # What is wrong with it, in words
    disk_full: bool = False  # Whether it is a server that refuses writes because of its disk
    crowded: bool = False  # Whether it lives, but there is no room for the connection that would ask it


@dataclass(frozen=True)
class ServiceSpec:
    """How a service is started, checked and restarted."""

    name: str  # Unique name, such as `trainer` or `client-1`
    kind: str  # `redis`, `trainer`, `telemetry` or `client`
    argv: tuple[str, ...]  # Command line; never holds a secret
    tier: int  # Services of one tier are stopped together, higher tiers first
    log_path: Path  # File that becomes standard output and error
    health: Callable[[], Health]  # Cheap and synchronous: reads what somebody else has found out
    grace_s: float = 4.0  # Seconds from being asked to stop to being killed
    save_grace_s: float = 60.0  # The same while its phase is `saving`
    start_limit_s: float = 60.0  # Seconds until it must be ready
    live_limit_s: float = 30.0  # Seconds its tick may stand still
    restart: bool = True  # Whether it is started again when it ends by itself
    # Once given up, it is tried again each so many seconds: the cause may have gone. None: by hand alone.
    retry_s: float | None = None
    # Exit code by which it says that its configuration can't work: then it is not started again, and what it
    # said last is told as the cause.
    refusal_code: int | None = None
    # What beside its command line must be the same for a living process to be adopted: the server that it
    # found in its address file.
    binding: str = ""
    env: Mapping[str, str] = field(default_factory=dict)  # Variables added to the runner's environment
    port: int | None = None  # Port it listens on, for display
    # Called with the end of the log before a restart; what it did, in words, becomes an event.
    repair: Callable[[Sequence[str]], str] | None = None
    # Called with the end of the log once ready; what it finds worth saying becomes an event.
    remark: Callable[[Sequence[str]], str] | None = None


OnEvent = Callable[[Level, str, str, str, str], None]  # told (level, what, cause, remedy, service)

_LAST_LINES = 20
_LATE_PART = 1 / 6  # of the time a tick may stand still: 5 of 30 s, as a client is late
_STAMP = "%Y-%m-%d %H:%M:%S"  # as lines of logs begin
_JUST_BEFORE_S = 30.0
_REMARK_LINES = 400
_UNKILLABLE_S = 5.0
_LONGEST_START_S = 600.0
_DOUBLED = 10  # so often at most, far beyond the longest


@dataclass
class ServiceContext:
    """What all services of a supervisor share."""

    identities: Identities
    limits: RestartLimits  # When failures are retried and when given up
    tell: OnEvent
    rng: random.Random
    # Whether the Redis server answers and takes writes. While it doesn't, nobody's tick can be seen: silence
    # kills nobody, and no failure counts towards giving up.
    server_up: bool = True


class Service:
    """One supervised service; `starts` counts the processes it has had."""

    def __init__(self, spec: ServiceSpec, context: ServiceContext) -> None:
        self.spec = spec
        self.state: ServiceState = "stopped"
        self.outcome: Outcome | None = None
        self.health = Health(ready=False)
        self.last_lines: list[str] = []
        self._context = context
        self.log = LogFile(spec.log_path)
        self._title = f"start of {spec.name}"
        self._process: OwnChild | Adopted | None = None
        self._history = RestartHistory()
        self._restarts = 0
        self._given_up = False  # that it was is told once, until it has been healthy again
        self.starts = 0
        self._grace_s = spec.grace_s
        self._kill_reason = ""
        self._kill_wished = False
        self._silence = ""  # That its tick stands still, in words
        self._tick: int | None = None
        self._memory_kills = 0
        # Moments, in the seconds of the monotonic clock that is passed in.
        self._born = self._began = self._running_since = self._moved_at = self._saving_at = 0.0
        self._next_try = 0.0
        self._ended_at: float | None = None
        self._asked_at: float | None = None
        self._killed_at: float | None = None

    @property
    def pid(self) -> int | None:
        """Its process, None while there is none."""
        return self._process.pid if self._process is not None else None

    @property
    def active(self) -> bool:
        """Whether it has a process or will soon have one."""
        return self.state not in ("stopped", "failed")

    @property
    def _is_retried(self) -> bool:
        """Whether it was given up, and is tried again all the same."""
        return self.state == "failed" and self._given_up and self.spec.retry_s is not None

    @property
    def look(self) -> tuple[object, ...]:
        """Everything whose change is published."""
        health = self.health
        said = health.phase, health.detail, health.error, self._silence
        return (self.state, self.pid, *said, self._restarts, self.outcome)

    def start(self, now: float) -> None:
        """Start its process, or raise `ServiceError`; earlier failures no longer count."""
        self._history, self._given_up = RestartHistory(), False
        try:
            self._spawn(now)
        except OSError as error:
            cause = f"could not be started: {error}"
            self.outcome = Outcome(None, None, 0.0, asked_to_stop=False, cause=cause)
            self.state = "failed"
            raise ServiceError(
                f"{self.spec.name} {cause}", f"Check {self.spec.argv[0]} and {self.spec.log_path}"
            ) from error

    def adopt(self, record: ServiceRecord, now: float) -> None:
        """Take over a living process that an earlier runner started."""
        self._begin(Adopted(record), now)
        logger.info("%s continues as process %d", self.spec.name, record.pid)

    def ask_to_stop(self, now: float, grace_s: float | None) -> None:
        """Ask its process to stop; it is not started again."""
        if self.state == "backoff" or self._is_retried:
            self.state = "stopped"
        self._given_up = False
        if self._process is None:
            return
        grace = self.spec.grace_s if grace_s is None else grace_s
        if self.state == "stopping":
            self._grace_s = min(self._grace_s, grace)
            return
        self._asked_at, self._saving_at, self._grace_s = now, now, grace
        self._kill_wished = grace <= 0
        self.state = "stopping"
        self._process.terminate()

    def kill(self) -> None:
        """End its process and everything that started, without a look back."""
        if self._process is not None:
            self._process.kill()

    def step(self, now: float) -> None:
        """Look at the process and move on; never waits."""
        if (self.state == "backoff" or self._is_retried) and now >= self._next_try:
            self._try_again(now)
        process = self._process
        if process is None:
            return
        self.health = self._read_health()
        if process.ended():
            self._ended(process, now)
        elif self.state == "starting":
            self._step_starting(process, now)
        elif self.state == "running":
            self._step_running(now)
        else:
            self._step_stopping(process, now)

    def unobserved(self, seconds: float) -> None:
        """Note that nobody could look for so long (the runner slept): that time doesn't count against it."""
        self._began += seconds
        self._moved_at += seconds
        if self._asked_at is not None:
            self._asked_at += seconds

    def status(self, now: float, usage: Mapping[int, Usage]) -> ServiceStatus:
        """Return everything there is to show."""
        process, health = self._process, self.health if self._process is not None else Health(ready=False)
        used = usage.get(process.pid) if process is not None else None
        return ServiceStatus(
            name=self.spec.name,
            kind=self.spec.kind,
            state=self.state,
            # What a check says is free text, and not all of it is a phase.
            phase=cast(NodePhase, health.phase) if health.phase in _PHASES else "",
            detail=self._silence or health.detail or health.error,
            pid=self.pid,
            port=self.spec.port,
            uptime_s=now - self._born if process is not None else None,
            restarts=self._restarts,
            failures=self._history.failures,
            max_failures=self._context.limits.max_failures,
            restart_in_s=(
                max(0.0, self._next_try - now) if self.state == "backoff" or self._is_retried else None
            ),
            outcome=self.outcome.words_to_act_on if self.outcome is not None else "",
            last_lines=self.last_lines,
            cpu_percent=used.cpu_percent if used is not None else None,
            memory_bytes=used.memory_bytes if used is not None else None,
        )

    def _spawn(self, now: float) -> None:
        environment = {"PYTHONFAULTHANDLER": "1", **os.environ, **self.spec.env, TOKEN: self._announce()}
        self._memory_kills = system_memory_kills()
        try:
            with self.log.open(self._title) as output:
                child = OwnChild(self.spec.argv, output, environment)
        except OSError:
            self._context.identities.forget(self.spec.name)
            raise
        self._begin(child, now)
        self._record(child.pid)

    def _announce(self) -> str:
        """Write down that it is about to be started; return what its process is known by."""
        spec = self.spec
        try:
            return self._context.identities.announce(spec.name, spec.argv, spec.binding)
        except OSError as error:
            logger.error("%s can't be announced before its start: %s", spec.name, error)
            return ""

    def _record(self, pid: int) -> None:
        spec = self.spec
        try:
            self._context.identities.write(spec.name, spec.argv, pid, spec.binding)
        except OSError as error:
            logger.error("%s can't be recorded; a later runner won't find it: %s", spec.name, error)

    def _begin(self, process: OwnChild | Adopted, now: float) -> None:
        self._process = process
        self.starts += 1
        self.state = "starting"
        self.health = Health(ready=False)
        self.last_lines = []
        self._born = now - max(0.0, time.time() - process.started)
        self._began = self._moved_at = now
        self._ended_at = self._asked_at = self._killed_at = None
        self._kill_reason = self._silence = ""
        # Whatever is known now may still be of the process before: only a newer sign counts.
        self._tick = self._read_health().tick

    def _try_again(self, now: float) -> None:
        self._restarts += 1
        try:
            self._spawn(now)
        except OSError as error:
            cause = DISK_FULL if no_room(error) else f"could not be started: {error}"
            self._failed(Outcome(None, None, 0.0, asked_to_stop=False, cause=cause), now)

    def _read_health(self) -> Health:
        try:
            return self.spec.health()
        except Exception as error:
            # A defect of one check must not end the supervision of all the others.
            if not self.health.error:
                logger.exception("the check of %s failed", self.spec.name)
            return Health(ready=False, error=f"its check failed: {error}")

    def _step_starting(self, process: OwnChild | Adopted, now: float) -> None:
        if self.health.ready and self._tick_moved():
            self.state = "running"
            self._running_since = self._moved_at = now
            # Launchers replace themselves: only now the command line is sure to be the final one.
            self._record(process.pid)
            if self._restarts and self._history.failures:
                self._tell("info", f"{self.spec.name} runs again")
            self._remark()
        elif self._blind() or (self.health.crowded and self._tick_moved()):
            self._began = now
        else:
            usual_s, failed = self.spec.start_limit_s, min(self._history.in_a_row, _DOUBLED)
            # On a slow or busy computer it may need longer: it is given that, and not begun anew for ever.
            longer_s = min(usual_s * 2**failed, _LONGEST_START_S)
            limit_s = max(usual_s, longer_s, LONG_PHASES_S.get(self.health.phase, 0.0))
            if now - self._began > limit_s:
                why = self.health.detail or self.health.error
                self._kill(now, f"not ready within {limit_s:.0f} s" + (f" ({why})" if why else ""))

    def _step_running(self, now: float) -> None:
        self._history = self._history.after_running(now - self._running_since, self._context.limits)
        self._given_up = self._given_up and bool(self._history.failures)
        if self._tick_moved() or self._blind():
            self._moved_at = now
        silent_s = now - self._moved_at
        limit_s = max(self.spec.live_limit_s, LONG_PHASES_S.get(self.health.phase, 0.0))
        self._silence = f"no sign of life for {silent_s:.0f} s" if silent_s > limit_s * _LATE_PART else ""
        if silent_s > limit_s:
            during = f" while {self.health.phase}" if self.health.phase else ""
            self._kill(now, f"no sign of life for {limit_s:.0f} s{during}")

    def _step_stopping(self, process: OwnChild | Adopted, now: float) -> None:
        assert self._asked_at is not None
        if self.health.phase == "saving":
            self._saving_at = now
        deadline = max(self._asked_at, self._saving_at) + self._grace_s
        deadline = min(deadline, self._asked_at + max(self.spec.save_grace_s, self._grace_s))
        if now > deadline:
            self._kill(now, f"did not stop within {now - self._asked_at:.0f} s")
        if self._killed_at is not None and now - self._killed_at > _UNKILLABLE_S:
            logger.error("%s (process %d) does not end, not even when killed", self.spec.name, process.pid)
            cause = "does not end, not even when killed"
            self._leave(Outcome(None, None, now - self._born, asked_to_stop=True, cause=cause))
            self.state = "failed"

    def _tick_moved(self) -> bool:
        """Whether it gave a sign of life: its tick has moved; without a tick, that it is ready."""
        tick, before = self.health.tick, self._tick
        if tick is None:
            return self.health.ready
        self._tick = tick
        return tick != before

    def _blind(self) -> bool:
        """Whether the signs of life of this service can't be seen at the moment."""
        return not self._context.server_up and self.spec.kind != SERVER_KIND

    def _remark(self) -> None:
        # What an adopted service wrote when it started, an earlier runner has told.
        if self.spec.remark is not None and not isinstance(self._process, Adopted):
            remark = self.spec.remark(lines_since_start(self.spec.log_path, self._title, _REMARK_LINES))
            if remark:
                self._tell("warning", remark)

    def _kill(self, now: float, reason: str) -> None:
        assert self._process is not None
        if self._killed_at is None:
            self._killed_at, self._kill_reason = now, reason
        self._process.kill()

    def _ended(self, process: OwnChild | Adopted, now: float) -> None:
        asked, code = self._asked_at is not None, process.code()
        if self._ended_at is None:
            self._ended_at = now
        undecided = not asked and not self._kill_reason and code in (0, None) and not self.health.farewell
        if undecided and now - self._ended_at < self._context.limits.farewell_wait_s:
            return
        # Children that outlived it must not disturb the next start.
        process.kill()
        lines = lines_since_start(self.spec.log_path, self._title, _LAST_LINES)
        kills = system_memory_kills() - self._memory_kills
        refuses = not asked and code is not None and code == self.spec.refusal_code
        outcome = outcome_of_code(
            code,
            self._ended_at - self._born,
            asked_to_stop=asked,
            farewell=self.health.farewell,
            cause=self._kill_reason or evidence(code, lines, kills, free_disk_bytes(self.spec.log_path)),
            refusal=refusal_words(lines) if refuses else "",
        )
        self._leave(outcome)
        self.last_lines = lines if outcome.failed else []
        self._judge(outcome, now)

    def _leave(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self._process = None
        self.health = Health(ready=False)
        self._context.identities.forget(self.spec.name)

    def _judge(self, outcome: Outcome, now: float) -> None:
        name = self.spec.name
        if outcome.asked_to_stop:
            self.state = "stopped"
            # Who gives no time to end does not expect an end in order.
            if outcome.words != QUIET_END and not self._kill_wished:
                self._tell("warning", f"{name} did not end properly", outcome.words)
        elif outcome.in_order:
            self.state = "stopped"
            self._tell("info", f"{name} has ended", outcome.farewell)
        elif self.spec.restart:
            self._failed(outcome, now)
        elif outcome.exit_code == 0:
            self.state = "stopped"
        else:
            self.state = "failed"
            self._tell("error", f"{name} failed", self._cause(outcome), self._read_log_remedy())

    def _failed(self, outcome: Outcome, now: float) -> None:
        self.outcome = outcome
        name, limits = self.spec.name, self._context.limits
        no_space = outcome.cause == DISK_FULL
        if outcome.hopeless:
            self._given_up = False
            self._history = self._history.after_failure(now, limits)
            self.state = "failed"
            where = "with its settings" if outcome.refused else "on this computer"
            self._tell("error", f"{name} can't run {where}", outcome.words, outcome.remedy)
            return
        # Without a server that takes writes, or space, nobody can do its work: no failure of its own.
        diverged = outcome.diverged and self.spec.kind == TRAINER
        excused = self._blind() or no_space or diverged
        self._history = self._history.after_failure(now, limits, excused)
        if self._given_up or self._history.given_up(limits):
            self.state = "failed"
            self._next_try = now + (self.spec.retry_s or math.inf)
            if not self._given_up:
                window = duration_words(limits.window_s)
                what = f"{name} was given up after {self._history.failures} failures within {window}"
                self._tell("error", what, self._cause(outcome), self._read_log_remedy())
            self._given_up = True
            return
        self.state = "backoff"
        delay_s = self._history.delay_s(limits, self._context.rng)
        self._next_try = now + delay_s
        remedy = f"It restarts in {delay_s:.1f} s."
        if no_space:
            remedy = f"Free some space. It restarts by itself, next in {delay_s:.1f} s."
        what = "goes back to its last checkpoint" if diverged else "ended unexpectedly"
        self._tell("warning", f"{name} {what}", self._cause(outcome), remedy)
        if self.spec.repair is not None and (repaired := self.spec.repair(self.last_lines)):
            self._tell("warning", repaired)

    def _cause(self, outcome: Outcome) -> str:
        last = next((line for line in reversed(self.last_lines) if line.strip()), "")
        # What ended it stands above what was said on the way out, if it was just before.
        just_now = time.strftime(_STAMP, time.localtime(time.time() - _JUST_BEFORE_S))
        errors = (line for line in reversed(self.last_lines) if " ERROR " in line and line > just_now)
        last = next(errors, last)
        # A process that was killed had no time to say why.
        says_why = last and outcome.exit_code and not outcome.cause
        return f"{outcome.words}: {last}" if says_why else outcome.words

    def _read_log_remedy(self) -> str:
        retry_s = self.spec.retry_s
        again = "start it again" if retry_s is None else f"it is tried again every {retry_s:g} s"
        return f"Read its log (soulsgui logs {self.spec.name}), fix the cause, and {again}."

    def _tell(self, level: Level, what: str, cause: str = "", remedy: str = "") -> None:
        self._context.tell(level, what, cause, remedy, self.spec.name)
