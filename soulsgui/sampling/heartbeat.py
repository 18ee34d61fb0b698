"""What says once a second that this client lives, how far it is, and what went wrong here."""

import logging
import threading
from collections import deque

import redis

from soulsgui.sampling.progress import Progress
from soulsgui.wire.beacon import Beacon
from soulsgui.wire.connection import Address
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.base import LONGEST_DETAILS
from soulsgui.wire.messages.client_log import KEPT_LINES, LINE_FIELD, SentLine
from soulsgui.wire.messages.heartbeat import EXPIRY_S, PERIOD_S

logger = logging.getLogger(__name__)

_MOST_WAITING = 100
_MOST_AT_ONCE = 20
_HIDDEN = "(hidden)"


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
        is_error = record.levelno >= logging.ERROR
        line = SentLine(level="error" if is_error else "warning", text=_with_its_end(text))
        with self._guard:
            self._waiting.append(line)

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


def _with_its_end(text: str) -> str:
    """Cut a long text in its middle: what happened stands at its beginning, the cause at its end."""
    if len(text) <= LONGEST_DETAILS:
        return text
    half = (LONGEST_DETAILS - 3) // 2
    return f"{text[:half]}\n…\n{text[-half:]}"


class HeartbeatThread(Beacon):
    """Writes `beat:<client>`; `close` says goodbye."""

    def __init__(self, address: Address, progress: Progress, lines: ServerLogHandler | None = None) -> None:
        keys = Keys(address.prefix)
        key = keys.beat(progress.client)
        super().__init__(address, "heartbeat", key, PERIOD_S, lambda: progress.beat().to_json(), EXPIRY_S)
        self._progress = progress
        self._lines = lines
        self._log = keys.log(progress.client)

    def close(self) -> None:
        """Say goodbye, when the server is there to hear it, and end."""
        # Who is to be started anew does not leave.
        self._progress.leaving = self._progress.phase != "restarting"
        super().close()

    def _write(self, connection: redis.Redis) -> None:
        super()._write(connection)
        if self._lines is not None:
            self._lines.give(connection, self._log)
