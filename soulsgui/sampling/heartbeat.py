"""What says once a second that this client lives, how far it is, and what went wrong here."""

import hashlib
import logging
import threading
from collections import deque
from importlib import metadata
from typing import Literal

import psutil
import redis

from soulsgui import __version__
from soulsgui.errors import ClientRegistrationError
from soulsgui.sampling.progress import Progress
from soulsgui.system import process_identity
from soulsgui.wire.beats import PeriodicWriter
from soulsgui.wire.connection import Address
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.base import LONGEST_DETAILS, Instance
from soulsgui.wire.messages.heartbeat import EXPIRY_S, PERIOD_S, Heartbeat
from soulsgui.wire.messages.session import KEPT_LINES, LINE_FIELD, SentLine

logger = logging.getLogger(__name__)

_MOST_WAITING = 100
_MOST_AT_ONCE = 20
_HIDDEN = "(hidden)"
_FRESH_S = 5.0
_WATCH_S = 3.0
_LOOK_EVERY_S = 0.2
_START_TOLERANCE_S = 2.0


class ServerLogHandler(logging.Handler):
    """Takes lines from WARNING on, hides the secret, and gives the server a few with each beat."""

    def __init__(self, secret: str) -> None:
        super().__init__(logging.WARNING)
        self.setFormatter(logging.Formatter("%(name)s: %(message)s"))
        self._secret = secret
        self._waiting: deque[SentLine] = deque(maxlen=_MOST_WAITING)
        self._guard = threading.Lock()
        self._allowed = True

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line; when too many wait, the oldest is lost here (the log on this computer has it)."""
        try:
            text = self.format(record)
        except Exception:
            self.handleError(record)
            return
        if self._secret:
            text = text.replace(self._secret, _HIDDEN)
        level: Literal["error", "warning"] = "error" if record.levelno >= logging.ERROR else "warning"
        if len(text) > LONGEST_DETAILS:
            # What happened stands at its beginning, the cause at its end.
            half = (LONGEST_DETAILS - 3) // 2
            text = f"{text[:half]}\n…\n{text[-half:]}"
        with self._guard:
            self._waiting.append(SentLine(level=level, text=text))

    def give(self, connection: redis.Redis, key: str) -> None:
        """Give the server the oldest lines that wait; what it does not take now is given later."""
        with self._guard:
            lines = list(self._waiting)[:_MOST_AT_ONCE] if self._allowed else []
        if not lines:
            return
        pipeline = connection.pipeline(transaction=False)
        for line in lines:
            pipeline.xadd(key, {LINE_FIELD: line.to_json()}, maxlen=KEPT_LINES, approximate=False)
        try:
            pipeline.execute()
        except redis.exceptions.NoPermissionError:
            # Invited by an older server: the log of this computer has the lines.
            self._allowed = False
            logger.info("the server takes no log lines")
            return
        except redis.ResponseError:
            return  # memory or disk full: its owner hears of that elsewhere
        with self._guard:
            for line in lines:
                if self._waiting and self._waiting[0] is line:
                    self._waiting.popleft()


class HeartbeatThread(PeriodicWriter):
    """Writes `beat:<client>`; `close` says goodbye."""

    def __init__(self, address: Address, progress: Progress, lines: ServerLogHandler | None = None) -> None:
        keys = Keys(address.prefix)
        key = keys.beat(progress.client)
        super().__init__(address, "heartbeat", key, PERIOD_S, lambda: progress.beat().to_json(), EXPIRY_S)
        self._progress = progress
        self._lines = lines
        self._log, self._picture = keys.log(progress.client), keys.picture(progress.client)

    def close(self) -> None:
        """Say goodbye, when the server is there to hear it, and end."""
        # Who is to be started anew does not leave.
        self._progress.leaving = self._progress.phase != "restarting"
        super().close()

    def _write(self, connection: redis.Redis) -> None:
        super()._write(connection)
        if self._lines is not None:
            self._lines.give(connection, self._log)
        picture, self._progress.picture = self._progress.picture, None
        if picture is not None:
            connection.set(self._picture, picture.to_json(), ex=EXPIRY_S)


def own_versions() -> dict[str, str]:
    """Return the versions that a server may want to know."""
    return {"soulsgui": __version__} | {name: metadata.version(name) for name in ("gymnasium", "numpy")}


def derived_seed(seed: int, client: str, attempt: int) -> int:
    """Return a client's own seed: different for each client and attempt, the same in every repetition."""
    digest = hashlib.sha256(f"{seed}/{client}/{attempt}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def _is_dead_here(other: Instance, own: Instance) -> bool:
    """Whether the other process ran on this machine and is gone."""
    if other.host != own.host or other.boot_id != own.boot_id:
        return False
    now = process_identity(other.pid)
    if now is None:
        return not psutil.pid_exists(other.pid)  # one of another user may hide what it is
    return abs(now["start_time"] - other.start_time) > _START_TOLERANCE_S


def other_name_remedy(user: str) -> str:
    """Return what to do when two processes have one name; `user` is empty where nobody was invited."""
    if not user:
        return "Give this client another name (--name), or stop the other one."
    return (
        "An invitation is for one computer. Ask the server's owner for one of your own "
        "(there: soulsgui invite NAME), or stop the other process."
    )


def ensure_name_is_free(
    connection: redis.Redis, keys: Keys, client: str, own: Instance, stop: threading.Event, user: str = ""
) -> Heartbeat | None:
    """Make sure that no living process beats under this name; return its last beat, or None."""
    beat = Heartbeat.read(connection.get(keys.beat(client)))
    if beat is None or beat.leaving or beat.instance == own or _is_dead_here(beat.instance, own):
        return beat
    left_ms = connection.pttl(keys.beat(client))
    if EXPIRY_S - int(left_ms) / 1000 > _FRESH_S:
        return beat
    logger.info("%s beat a moment ago from %s; watching whether it lives", client, beat.instance.host)
    for _ in range(round(_WATCH_S / _LOOK_EVERY_S)):
        if stop.wait(_LOOK_EVERY_S):
            return beat
        again = Heartbeat.read(connection.get(keys.beat(client)))
        if again is None or again.leaving:
            return again
        if again.counter != beat.counter or again.instance != beat.instance:
            raise ClientRegistrationError(
                f"The name {client} is in use by process {again.instance.pid} on {again.instance.host}.",
                other_name_remedy(user),
            )
    return beat
