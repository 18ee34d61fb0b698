"""A real training node in a thread, on a real server, for clients moved by hand."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest
import redis

from soulsgui.config.layers import combine
from soulsgui.config.parsing import Layer
from soulsgui.config.paths import RunFolder
from soulsgui.config.schema import Settings
from soulsgui.experience.segments import Segments
from soulsgui.sampling.progress import Progress
from soulsgui.training.checkpoint import newest_resumable
from soulsgui.training.nodes import NODES
from soulsgui.wire.connection import Address, connect
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.metrics import ROW_FIELD, Row, UpdateRow, read_row
from soulsgui.wire.messages.node import NodeState
from soulsgui.wire.messages.session import RoundShare
from soulsgui.wire.node_commands import NodeAnswer, NodeCommand, read_answer, send_command
from tests.faults.server import FaultyServer, faulty_server
from tests.faults.waiting import LIMIT_S, until
from tests.rl.support import client_of
from tests.sampling.free_trainer import PlayingClient
from tests.training.players import Player

STEPS = 16
"""Steps each environment contributes to a round."""

_BEAT_S = 1.0

STARTS, BATCH = 32, 8
"""Transitions before the first update from a memory, and in each without rounds."""

_COMMON: dict[str, Any] = {
    "network.hidden_sizes": [8],
    "network.value_hidden_sizes": [8],
    "checkpoint.every_updates": 1000,
}


def _with_memory(algorithm: str) -> dict[str, Any]:
    own = {"learning_starts": STARTS, "batch_size": BATCH, "replay_ratio": 1.0, "buffer_size": 1000}
    named = {f"{algorithm}.{name}": value for name, value in own.items()}
    return _COMMON | named | {"algorithm": algorithm, "publish.min_seconds": 0.02}


SMALL: dict[str, Any] = _COMMON | {
    "ppo.n_steps": STEPS,
    "ppo.n_clients": 1,
    "ppo.epochs": 2,
    "ppo.minibatch_size": 32,
}
SMALL_DQN = _with_memory("dqn")
SMALL_SAC = _with_memory("sac") | {"env.id": "Pendulum-v1"}
SMALL_VTRACE: dict[str, Any] = _COMMON | {
    "algorithm": "vtrace",
    "vtrace.batch_size": BATCH,
    "vtrace.buffer_size": 64,
    "publish.min_seconds": 0.02,
}

ALGORITHMS = {"ppo": SMALL, "dqn": SMALL_DQN, "sac": SMALL_SAC, "vtrace": SMALL_VTRACE}
"""Small settings by algorithm. Those with a memory make an update after `STARTS` transitions."""

FIRST = {"ppo": 2 * STEPS, "dqn": STARTS, "sac": STARTS, "vtrace": BATCH}
"""Transitions that the first update of an attempt takes; each further one takes `BATCH`, or a round."""


def settings_of(algorithm: str, **changed: Any) -> Settings:
    """Settings of runs that take milliseconds; keys are dotted, with `__` for the dot."""
    changes = {key.replace("__", "."): value for key, value in changed.items()}
    return combine([Layer("test", ALGORITHMS[algorithm] | changes)])


small_settings = partial(settings_of, "ppo")
dqn_settings = partial(settings_of, "dqn")
vtrace_settings = partial(settings_of, "vtrace")


_Found = TypeVar("_Found")


def found(look: Callable[[], _Found | None], what: str) -> _Found:
    """Wait until a look finds something, and return that."""
    seen: list[Any] = []

    def again() -> object:
        seen[:] = [look()]
        return seen[0]

    until(again, what)
    return seen[0]


def ask_node(connection: redis.Redis, keys: Keys, command: str, **args: Any) -> str:
    """Put a command before a trainer; return the command's id."""
    asked = NodeCommand.model_validate({"command": command, "args": args})
    send_command(connection, keys, "trainer", asked)
    return asked.id


def answers_of(connection: redis.Redis, keys: Keys, command_id: str) -> list[NodeAnswer]:
    answers = [read_answer(fields) for _, fields in connection.xrange(keys.done)]
    return [answer for answer in answers if answer is not None and answer.id == command_id]


class RunningNode:
    """A node that runs, from its newest checkpoint on where it resumes."""

    def __init__(self, address: Address, root: Path, settings: Settings, resume: bool = False) -> None:
        self.run = RunFolder(root)
        self.address, self.keys = address, Keys(address.prefix)
        self.connection = connect(address, "test-node")
        self.node: Any = NODES[settings.algorithm](settings, self.run, address)
        if resume:
            self.node.load_checkpoint(newest_resumable(self.run))
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="node")
        self._thread.start()

    def _run(self) -> None:
        try:
            self.node.run()
        except BaseException as error:
            self.failure = error

    def told(self) -> NodeState:
        state = NodeState.read(self.connection.get(self.keys.node("trainer")))
        assert state is not None
        return state

    def rows(self) -> list[Row]:
        rows = [read_row(fields[ROW_FIELD]) for _, fields in self.connection.xrange(self.keys.metrics)]
        assert None not in rows
        return rows

    def update_rows(self) -> list[UpdateRow]:
        return [row for row in self.rows() if isinstance(row, UpdateRow)]

    def quiet(self, turns: int = 5) -> None:
        tick = self.node.training.status.tick
        until(lambda: self.node.training.status.tick >= tick + turns, "some turns")

    def ask(self, command: str, **args: Any) -> str:
        return ask_node(self.connection, self.keys, command, **args)

    def answer(self, command_id: str) -> NodeAnswer:
        return found(lambda: answers_of(self.connection, self.keys, command_id), "the answer")[0]

    def wait_for(self, condition: Any, what: str) -> NodeState:
        def look() -> NodeState | None:
            if self.failure is not None:
                raise self.failure
            if self.node.training.status.phase == "loading":
                return None
            # Not what stands on the server: that comes twice a second.
            state: NodeState = self.node.state()
            return state if condition(state) else None

        return found(look, what)

    def wait_for_updates(self, count: int) -> NodeState:
        """Return its state after so many updates, beginning the round after them."""
        return self.wait_for(lambda state: state.updates >= count, f"{count} updates")

    def join(self) -> None:
        self._thread.join(LIMIT_S)
        assert not self._thread.is_alive()

    def stop(self) -> None:
        self.node.shutdown()
        self.join()
        self.connection.close()


@contextmanager
def running_node(
    address: Address, root: Path, settings: Settings | None = None, resume: bool = False
) -> Iterator[RunningNode]:
    """Run a node until the block ends; what it raised is raised here."""
    node = RunningNode(address, root, settings or small_settings(), resume)
    try:
        yield node
    finally:
        node.stop()
    if node.failure is not None:
        raise node.failure


RunNode = Callable[..., AbstractContextManager[RunningNode]]
"""Takes settings, and whether to resume: a node of the test's own server and folder."""


@contextmanager
def faulty_node(
    root: Path, settings: Settings | None = None, keeps_data: bool = False
) -> Iterator[tuple[FaultyServer, RunningNode]]:
    (root / "server").mkdir()
    with (
        faulty_server(root / "server", keeps_data) as server,
        running_node(server.address, root / "run", settings) as node,
    ):
        yield server, node


class Heard(NamedTuple):
    """A batch as the agent was given it, and the policy that it had then."""

    batch: Segments
    policy: Any


def heard_batches(node: RunningNode, monkeypatch: pytest.MonkeyPatch) -> list[Heard]:
    """Return a list that fills with what the agent is given from now on."""
    heard: list[Heard] = []
    agent, update = node.node.agent, node.node.agent.update

    def listen(batch: Segments, *more: Any) -> Any:
        heard.append(Heard(batch, client_of(agent)))
        return update(batch, *more)

    monkeypatch.setattr(agent, "update", listen)
    return heard


def let_play(node: RunningNode, updates: int) -> Progress:
    """Let a real client play until there were so many updates, all of its samples being taken; return how."""
    node.connection.hset(node.keys.clients, "c", "{}")
    client = PlayingClient(node.address)
    try:
        state = node.wait_for_updates(updates)
    finally:
        client.end()
    assert client.failure is None
    assert state.rejected == {}
    return client.progress


def join(node: RunningNode, name: str = "c", num_envs: int = 2) -> Player:
    """Let a player join a run; return it when it was let in."""
    player = Player(node.connection, node.keys, name, num_envs)
    until(player.config, "the run is told")
    player.hello()
    player.beat()
    until(player.grant, "the hello is answered")
    return player


def next_round(player: Player, last: int = -1, *others: Player) -> RoundShare:
    """Return a player's part of a round after the last one, with its weights; the others beat meanwhile."""
    beat_at = time.monotonic()

    def look() -> RoundShare | None:
        nonlocal beat_at
        if time.monotonic() > beat_at + _BEAT_S:
            beat_at = time.monotonic()
            for one in {player, *others}:
                one.beat()  # on a busy machine the wait may be longer than a silent client is waited for
        share = player.share()
        return share if share is not None and share.round_id > last else None

    return found(look, f"a round after {last} for {player.name}")


def play(*players: Player, rounds: int = 1, last: int = -1) -> int:
    for _ in range(rounds):
        shares = [next_round(player, last, *players) for player in players]
        assert len({share.round_id for share in shares}) == 1
        for player, share in zip(players, shares, strict=True):
            player.deliver(share.steps // player.num_envs)
        last = shares[0].round_id
    return last


class Training:
    """A player that lets a run make one update after the other, whatever the algorithm."""

    def __init__(self, node: RunningNode, player: Player | None = None, last: int = -1) -> None:
        self.node = node
        self.player = player or join(node)
        self.last = last  # id of the last round, where there are rounds
        self._fresh = True

    def deliver(self, **changed: Any) -> None:
        algorithm = self.node.node.training.settings.algorithm
        if algorithm == "ppo":
            self.last = next_round(self.player, self.last).round_id
        steps, self._fresh = FIRST[algorithm] if self._fresh or algorithm == "ppo" else BATCH, False
        self.player.deliver(steps // self.player.num_envs, **changed)

    def update(self, times: int = 1) -> NodeState:
        """Let it make updates; return its state when their weights are published."""
        for _ in range(times):
            count = self.node.node.agent.updates + 1
            self.deliver()
            state = self.node.wait_for_updates(count)
            until(lambda: self.player.weights()[0].update == count, "its weights")  # noqa: B023
        return state
