"""What the runner knows at this moment of the server, its nodes and its clients."""

import asyncio
from collections import defaultdict
from collections.abc import Callable

from soulsgui.runner.family import Family
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
        disk_full: Whether it refuses writes because of its disk.
        server: Its address, version and memory.
    """

    def __init__(self, roster: Roster, pid: Callable[[str], int | None]) -> None:
        self.roster = roster
        self.reachable = False
        self.disk_full = False
        self.server = ServerStatus()
        self.pid = pid
        self._nodes: dict[str, NodeState] = {}
        self._pids: dict[str, int] = {}
        self._families: defaultdict[str, Family] = defaultdict(Family)
        self._turned = asyncio.Event()

    def take(self, turn: Turn) -> None:
        """Take note of what was read."""
        self.reachable = turn.reachable
        for name, state in turn.nodes.items():
            pid = self.pid(name)
            if pid is not None and pid != self._pids.get(name):
                self._pids[name] = pid
                self._nodes.pop(name, None)
            # What an earlier process left on the server is no news of this one.
            if self._families[name].includes(self._pids.get(name), state.instance.pid):
                self._nodes[name] = state
        self._turned.set()
        self._turned = asyncio.Event()

    def node(self, name: str) -> NodeState | None:
        """Return what the present process of a node (or the last one) has said last; None when nothing."""
        return self._nodes.get(name)

    def node_of(self, name: str, run_id: str) -> NodeState | None:
        """Return the same, if it was said in this run."""
        state = self.node(name)
        return state if state is not None and state.run_id == run_id else None

    def beat(self, client: str) -> Heartbeat | None:
        """Return the newest beat of a client."""
        return self.roster.beat(client)

    def forget_nodes(self) -> None:
        """Drop what nodes of an earlier run said."""
        self._nodes = {}
        self._pids = {}

    async def next_turn(self, timeout_s: float) -> None:
        """Return after the server was read again, or after a while."""
        turned = self._turned
        try:
            await asyncio.wait_for(turned.wait(), timeout_s)
        except TimeoutError:
            return
