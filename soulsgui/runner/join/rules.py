"""The rules of a computer's owner for the client on it, and what they require at present."""

import contextlib
import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

from soulsgui.system import CannotTell, Presence, can_pin, hold_back, write_private
from soulsgui.wire.control import RulesState
from soulsgui.wire.messages.owner import IDLE_AFTER_S, Held, Rules

logger = logging.getLogger(__name__)


class OwnerRules:
    """Keeps the owner's rules in a file, and asks the system what it takes to follow them.

    Attributes:
        rules: The rules.
    """

    def __init__(
        self,
        path: Path,
        presence: Presence,
        is_ours: Callable[[int], bool],
        local_time: Callable[[], datetime] = datetime.now,
    ) -> None:
        self.rules = Rules()
        self._path = path
        self._presence = presence
        self._is_ours = is_ours
        self._local_time = local_time
        with contextlib.suppress(OSError):
            self.rules = Rules.read(path.read_bytes()) or Rules()

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
        )

    def held(self) -> Held:
        """Return why the client is to hold back now; asks the system, up to some seconds.

        A rule that can't be followed here holds nothing back.
        """
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


def _why_not(ask: Callable[[], object]) -> str:
    try:
        ask()
    except CannotTell as error:
        return str(error)
    return ""
