"""What says once a second that this client lives, and how far it is."""

from soulsgui.sampling.progress import Progress
from soulsgui.wire.beacon import Beacon
from soulsgui.wire.connection import Address
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.heartbeat import EXPIRY_S, PERIOD_S


class HeartbeatThread(Beacon):
    """Writes `beat:<client>`; `close` says goodbye.

    Args:
        address: The server.
        progress: What to tell.
    """

    def __init__(self, address: Address, progress: Progress) -> None:
        key = Keys(address.prefix).beat(progress.client)
        super().__init__(address, "heartbeat", key, PERIOD_S, lambda: progress.beat().to_json(), EXPIRY_S)
        self._progress = progress

    def close(self) -> None:
        """Say goodbye, when the server is there to hear it, and end."""
        # Who is to be started anew does not leave.
        self._progress.leaving = self._progress.phase != "restarting"
        super().close()
