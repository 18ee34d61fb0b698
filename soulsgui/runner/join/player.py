"""The one client of this machine: whether it is to play, its owner's pause, and the owner's rules for it."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

from soulsgui.errors import UsageError
from soulsgui.process import SUPERVISED_ENV, child_env, own_command
from soulsgui.runner.join.reports import Reports
from soulsgui.runner.refusal import Refused
from soulsgui.runner.services.service import ServiceSpec
from soulsgui.runner.services.supervisor import Supervisor
from soulsgui.system import CannotTell, Presence, can_pin, hold_back, why_not_confined, write_private
from soulsgui.wire.connection import Address
from soulsgui.wire.control import ErrorCode, RulesState, ServiceStatus
from soulsgui.wire.control.states import CLIENT
from soulsgui.wire.messages.owner import (
    IDLE_AFTER_S,
    ClientFolder,
    Held,
    OwnerPause,
    OwnerState,
    OwnerWish,
    Rules,
    read_rules,
)

logger = logging.getLogger(__name__)

_READY_LIMIT_S = 30.0
_START_LIMIT_S = 300.0  # behind all other programs of a busy computer, as its owner may wish
_NOT_ENDING = ("run", "pause", "pause_after_episode")


class Player:
    """Starts, stops and pauses the client."""

    def __init__(
        self,
        folder: ClientFolder,
        name: str,
        supervisor: Supervisor,
        reports: Reports,
        agreement: Path | None = None,
    ) -> None:
        # Whether this machine is to help: the client is started as soon as there is a server.
        self.wanted = False
        self.held: Held = ""  # Why it holds back by its owner's rules; empty while it does not
        self.kept = KeptPause(folder.pause)
        self._written: OwnerState | None = None
        self._folder = folder
        self._supervisor = supervisor
        self._reports = reports
        self._spec = _spec(folder, name, reports, agreement)
        self.address: Address | None = None  # The server it plays for, or played for last
        with contextlib.suppress(UsageError):
            self.address = Address.read(folder.server_address)
        self._lock = asyncio.Lock()

    @property
    def wish(self) -> OwnerState:
        """What its owner wants of it."""
        return self.kept.wish

    @property
    def _strictest(self) -> OwnerState:
        return "pause" if self.held else self.wish

    def leave_server(self, name: str, agreement: Path | None) -> None:
        """Forget the server it played for last.

        The next one knows the client by this id; what it may run here stands in the file `agreement`, None
        for this computer's own server, which may run anything.
        """
        self._folder.server_address.unlink(missing_ok=True)
        self.address = None
        self._spec = _spec(self._folder, name, self._reports, agreement)

    async def adopt(self) -> bool:
        """Take over a client that an earlier runner started, as its owner left it; return whether one is."""
        if not await self._supervisor.adopt(self._spec):
            return False
        self.wanted = True
        self._write(self._strictest)
        return True

    async def switch_on(self) -> None:
        """Let the client play; without a server that happens once there is one. A pause stays."""
        async with self._lock:
            self.wanted = True
            if self.wish != "run":
                logger.info("it is paused by its owner: resume it in the window, or: soulsgui join continue")
            await self._start()

    async def until_ready(self) -> None:
        """Return once the client says something of itself, or is not to be started now."""
        if self.address is None or not self.wanted:
            return
        if not await self._supervisor.wait_ready(CLIENT, _READY_LIMIT_S) and self.wanted:
            raise Refused(
                ErrorCode.NO_ANSWER,
                f"The client is not ready after {_READY_LIMIT_S:.0f} s.",
                "Look at its log.",
            )

    async def switch_off(self) -> None:
        """Stop the client at once; it is not started again by itself."""
        self.wanted = False
        async with self._lock:
            await self._stop()

    async def finish(self) -> None:
        """Let the client end the episode it is in, then stop it; returns when it has ended.

        In a pause that its owner wants at once nothing is played, so no episode is ended either.
        """
        self._write("stop" if self._strictest == "pause" else "stop_after_episode")
        while self._supervisor.pid_of(CLIENT) is not None:
            await asyncio.sleep(0.1)
        self.wanted = False

    async def restart(self) -> None:
        """Stop the client and start it again, with what its owner wanted."""
        async with self._lock:
            self.wanted = True
            await self._stop()
            await self._start()

    async def use_server(self, address: Address | None) -> None:
        """Play for the server at this address from now on; None while there is none."""
        if address is None or address == self.address:
            return
        async with self._lock:
            await asyncio.to_thread(address.write, self._folder.server_address)
            self.address = address
            if self.wanted:
                logger.info("the server is at %s:%d now", address.host, address.port)
                await self._stop()
                await self._start()

    async def _start(self) -> None:
        if self.address is not None:
            self._write(self._strictest)
            await self._supervisor.start(self._spec)

    async def _stop(self) -> None:
        if self._supervisor.pid_of(CLIENT) is not None:
            # Where a signal does not reach it (Windows), it reads what is wanted.
            self._write("stop")
        await self._supervisor.stop(CLIENT)

    def pause(self, after_episode: bool, for_s: float | None = None) -> None:
        """Let the client wait, at once or after the episodes it is in."""
        self.check_wanted()
        self.kept.begin(after_episode, for_s)
        self._write(self._strictest)

    def resume(self) -> None:
        """Let the client go on."""
        self.check_wanted()
        self.kept.end()
        self._write(self._strictest)

    def keep_wish(self) -> None:
        """Restore the wish that held before `finish`."""
        self._write(self._strictest)

    def check_wanted(self) -> None:
        """Raise that there is nobody to pause, while this computer is not to play at all."""
        if not self.wanted:
            raise Refused(ErrorCode.NOT_NOW, "This computer does not help at present.", "Switch it on first.")

    def _write(self, wish: OwnerState) -> None:
        write_private(self._folder.wish, OwnerWish(state=wish).to_json().encode())
        self._written = wish

    def look(self) -> None:
        """Notice that a pause is over or a rule holds, and that the client has ended by itself."""
        self.kept.forget_if_over()
        if self._written in _NOT_ENDING and self._strictest != self._written:
            self._write(self._strictest)
        if not self.wanted or self._lock.locked() or self.address is None:
            return
        outcome = self._supervisor.outcome_of(CLIENT)
        # Then it is not wanted any more.
        if self.status().state == "stopped" and outcome is not None and outcome.in_order:
            self.wanted = False

    def status(self) -> ServiceStatus:
        """Return how the service is, also before it was ever started."""
        known = next((one for one in self._supervisor.statuses() if one.name == CLIENT), None)
        if known is not None:
            return known
        if self.wanted:
            return ServiceStatus(name=CLIENT, kind=CLIENT, state="starting", detail="waiting for a server")
        return ServiceStatus(name=CLIENT, kind=CLIENT, state="stopped")


def _spec(folder: ClientFolder, name: str, reports: Reports, agreement: Path | None) -> ServiceSpec:
    places = ["--server-file", str(folder.server_address), "--state-dir", str(folder.root)]
    if agreement is not None:
        places += "--agreement", str(agreement)
    return ServiceSpec(
        name=CLIENT,
        kind=CLIENT,
        argv=(*own_command("client"), "--name", name, *places),
        tier=0,
        log_path=folder.logs / f"{CLIENT}.log",
        start_limit_s=_START_LIMIT_S,
        health=reports.health,
        env=child_env() | SUPERVISED_ENV,
    )


class KeptPause:
    """The pause that the owner of this machine wants, until it is ended or has run out."""

    def __init__(self, path: Path, wall_clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._wall_clock = wall_clock
        self._pause: OwnerPause | None = None
        with contextlib.suppress(OSError):
            self._pause = OwnerPause.read(path.read_bytes())

    @property
    def wish(self) -> OwnerState:
        """What is wanted of the client now."""
        if self._pause is None or self._has_run_out(self._pause):
            return "run"
        return "pause_after_episode" if self._pause.after_episode else "pause"

    @property
    def until(self) -> float | None:
        """When it ends by itself, seconds since the epoch; None when it does not, or there is none."""
        return self._pause.until if self._pause is not None and self.wish != "run" else None

    def begin(self, after_episode: bool, for_s: float | None) -> None:
        """Pause from now on."""
        until = self._wall_clock() + for_s if for_s is not None else None
        pause = OwnerPause(after_episode=after_episode, until=until)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_private(self._path, pause.to_json().encode())
        self._pause = pause

    def end(self) -> None:
        """Pause no longer."""
        self._path.unlink(missing_ok=True)
        self._pause = None

    def forget_if_over(self) -> None:
        """Forget a pause that has run out."""
        if self._pause is not None and self._has_run_out(self._pause):
            logger.info("the pause is over")
            self.end()

    def _has_run_out(self, pause: OwnerPause) -> bool:
        return pause.until is not None and self._wall_clock() >= pause.until


class OwnerRules:
    """Keeps the owner's rules in a file, and asks the system what it takes to follow them."""

    def __init__(
        self,
        path: Path,
        presence: Presence,
        is_ours: Callable[[int], bool],
        local_time: Callable[[], datetime] = datetime.now,
    ) -> None:
        self.rules = read_rules(path)
        self._path = path
        self._presence = presence
        self._is_ours = is_ours
        self._local_time = local_time

    def keep(self, rules: Rules) -> None:
        """Follow other rules from now on."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_private(self._path, rules.to_json().encode())
        self.rules = rules

    def state(self) -> RulesState:
        """Return the rules, and which of them can't be followed here; asks the system, up to some seconds."""
        return RulesState(
            rules=self.rules,
            why_not_idle=_why_not(self._presence.idle_s),
            why_not_full_screen=_why_not(self._presence.full_screen_pid),
            why_not_one_core="" if can_pin() else "macOS chooses the cores itself.",
            why_not_confined=why_not_confined(),
        )

    def held(self) -> Held:
        """Return why the client is to hold back now, by rules that can be followed; takes up to seconds."""
        now, rules = self._local_time(), self.rules
        if not rules.in_hours(60 * now.hour + now.minute):
            return "hours"
        with contextlib.suppress(CannotTell):
            if rules.not_full_screen and self._is_another_full_screen():
                return "full_screen"
        with contextlib.suppress(CannotTell):
            if rules.only_idle and self._presence.idle_s() < IDLE_AFTER_S:
                return "busy"
        return ""

    def hours_begin(self) -> float:
        """Return when the hours of the rules begin next, seconds since the epoch."""
        now, begin = self._local_time(), self.rules.begin
        then = now.replace(hour=begin // 60, minute=begin % 60, second=0, microsecond=0)
        return (then if then > now else then + timedelta(days=1)).timestamp()

    def hold_back(self, pid: int) -> None:
        """Let the client take no more of the processor than it may."""
        if self.rules.share != "full":
            hold_back(pid, 1 if self.rules.share == "one_core" else None)

    def _is_another_full_screen(self) -> bool:
        pid = self._presence.full_screen_pid()
        return pid is not None and not (pid and self._is_ours(pid))


def unconfined(rules: Rules) -> str:
    """Return why what a server has a client run may write wherever its owner may; empty when it may not."""
    return "You have allowed it." if rules.writes_anywhere else why_not_confined()


def _why_not(ask: Callable[[], object]) -> str:
    try:
        ask()
    except CannotTell as error:
        return str(error)
    return ""
