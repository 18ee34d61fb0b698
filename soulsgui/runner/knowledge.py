"""What the runner knows at this moment of the server, its nodes and its clients."""

import asyncio
from collections.abc import Callable

from soulsgui.runner.roster import Roster
from soulsgui.runner.watch import Turn
from soulsgui.wire.control import ServerStatus
from soulsgui.wire.messages.heartbeat import Heartbeat
from soulsgui.wire.messages.node import NodeState


class Knowledge:
    """The newest of everything that was read.

    Args:
        roster: The clients.
        pid: Tells the pid of a supervised service.

    Attributes:
        reachable: Whether the server answers.
        server: Its address, version and memory.
    """

    def __init__(self, roster: Roster, pid: Callable[[str], int | None]) -> None:
        self.roster = roster
        self.reachable = False
        self.server = ServerStatus()
        self.pid = pid
        self._nodes: dict[str, NodeState] = {}
        self._turned = asyncio.Event()

    def take(self, turn: Turn) -> None:
        """Take note of what was read."""
        self.reachable = turn.reachable
        if turn.reachable:
            self._nodes = dict(turn.nodes)
        self._turned.set()
        self._turned = asyncio.Event()

    def node(self, name: str) -> NodeState | None:
        """Return the newest state of a node; while the server is away, the one before."""
        return self._nodes.get(name)

    def beat(self, client: str) -> Heartbeat | None:
        """Return the newest beat of a client."""
        return self.roster.beat(client)

    def forget_nodes(self) -> None:
        """Drop what nodes of an earlier run said."""
        self._nodes = {}

    async def next_turn(self, timeout_s: float) -> None:
        """Return after the server was read again, or after a while."""
        turned = self._turned
        try:
            await asyncio.wait_for(turned.wait(), timeout_s)
        except TimeoutError:
            return
