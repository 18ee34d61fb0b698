"""What a client is to do: the stricter of what the owner of its machine and the server want."""

import json
import logging
import threading
import time
from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from soulsgui.system import replace, same_process
from soulsgui.wire.messages.owner import LOOK_EVERY_S, ClientFolder, ClientReport, OwnerState, OwnerWish
from soulsgui.wire.messages.session import Wish

logger = logging.getLogger(__name__)

_REPORT_EVERY_S = 1.0
_RUNNER_EVERY_S = 1.0
_GONE_AFTER_LOOKS = 2


class Stepping(IntEnum):
    """How far environments may be stepped; the smaller, the stricter."""

    NONE = 0
    TO_THE_END = 1
    """On, unrecorded, until each has ended the episode it is in."""
    FREE = 2


class Plan(NamedTuple):
    """What is to be done: how far environments are stepped, and whether the process then stops."""

    stepping: Stepping = Stepping.FREE
    stop: bool = False


_OF_OWNER: dict[OwnerState, Plan] = {
    "run": Plan(),
    "pause_after_episode": Plan(Stepping.TO_THE_END),
    "pause": Plan(Stepping.NONE),
    "stop_after_episode": Plan(Stepping.TO_THE_END, stop=True),
    "stop": Plan(Stepping.NONE, stop=True),
}
_OF_SERVER = {
    "run": Plan(),
    "pause": Plan(Stepping.NONE),
    "finish": Plan(Stepping.TO_THE_END, stop=True),
    "stop": Plan(Stepping.NONE, stop=True),
}


def plan_of(owner: OwnerState, server: Wish | None) -> Plan:
    """Return what satisfies both."""
    mine, its = _OF_OWNER[owner], Plan() if server is None else _OF_SERVER[server.state]
    return Plan(min(mine.stepping, its.stepping), mine.stop or its.stop)


class OwnerLink(threading.Thread):
    """Reads what the owner wants, and reports to the owner's runner.

    Without that runner nobody could see or stop this client: it is to end after its episode then, unless
    another runner takes over before.
    """

    def __init__(
        self, folder: ClientFolder, report: Callable[[], ClientReport], on_change: Callable[[], None]
    ) -> None:
        super().__init__(name="owner", daemon=True)
        self._folder = folder
        self._report = report
        self._on_change = on_change
        self._wish: OwnerState = "run"
        self._gone_looks = 0
        self._stop_event = threading.Event()
        self._wake = threading.Event()
        self._trouble = ""
        folder.state.parent.mkdir(parents=True, exist_ok=True)
        self._look()

    @property
    def wish(self) -> OwnerState:
        """What is wanted now."""
        return "stop_after_episode" if self.runner_is_gone and self._wish != "stop" else self._wish

    @property
    def runner_is_gone(self) -> bool:
        """Whether nobody watches over this client any more."""
        return self._gone_looks >= _GONE_AFTER_LOOKS

    def soon(self) -> None:
        """Tell at once: something changed."""
        self._wake.set()

    def run(self) -> None:
        """Read and tell until closed."""
        reported_at = looked_at = float("-inf")
        while not self._stop_event.is_set():
            now = time.monotonic()
            if now - looked_at >= _RUNNER_EVERY_S:
                looked_at = now
                self._look_at_runner()
            if self._look():
                self._on_change()
            if self._wake.is_set() or now - reported_at >= _REPORT_EVERY_S:
                self._wake.clear()
                reported_at = now
                self._tell()
            self._wake.wait(LOOK_EVERY_S)

    def close(self) -> None:
        """Tell for the last time, and end."""
        self._stop_event.set()
        self._wake.set()
        if self.is_alive():
            self.join()
        self._tell()

    def _look(self) -> bool:
        """Read the wish; return whether it is another one."""
        try:
            found = OwnerWish.read(self._folder.wish.read_bytes())
        except FileNotFoundError:
            found = OwnerWish()
        except OSError:
            # Windows is just replacing it.
            return False
        if found is None or found.state == self._wish:
            return False
        self._wish = found.state
        logger.info("the owner wants: %s", found.state)
        return True

    def _look_at_runner(self) -> None:
        was_gone = self.runner_is_gone
        try:
            identity = json.loads(self._folder.runner.read_bytes())
        except (OSError, ValueError):
            identity = None
        lives = isinstance(identity, dict) and same_process(identity)
        # Once may be the moment between two runners.
        self._gone_looks = 0 if lives else self._gone_looks + 1
        if self.runner_is_gone and not was_gone:
            logger.warning("the runner of client mode is gone: ending after the episode")
        if self.runner_is_gone is not was_gone:
            self._on_change()

    def _tell(self) -> None:
        try:
            # As a whole. It is of no use after a power cut, so it is not brought to the disk.
            path = self._folder.state
            aside = path.with_name(f".{path.name}.tmp")
            aside.write_bytes(self._report().to_json().encode())
            replace(aside, path)
        except Exception as error:  # whatever it is, the owner can still have this client pause and stop
            if str(error) != self._trouble:
                unforeseen = not isinstance(error, OSError)
                logger.warning("the report to the owner can't be written: %s", error, exc_info=unforeseen)
            self._trouble = str(error)
