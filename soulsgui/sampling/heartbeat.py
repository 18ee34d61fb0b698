"""What says once a second that this client lives, and how far it is."""

import redis

from soulsgui.sampling.progress import Progress
from soulsgui.sampling.told_lines import ToldLines
from soulsgui.wire.beacon import Beacon
from soulsgui.wire.connection import Address
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.heartbeat import EXPIRY_S, PERIOD_S


class HeartbeatThread(Beacon):
    """Writes `beat:<client>`; `close` says goodbye.

    Args:
        address: The server.
        progress: What to tell.
        lines: What went wrong here, told behind each beat; None tells nothing of it.
    """

    def __init__(self, address: Address, progress: Progress, lines: ToldLines | None = None) -> None:
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
