"""What the connections of an invited client may take of a real server, on each server program (R36)."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import redis

from soulsgui.config.sections.server import RedisSettings
from soulsgui.runner.server import allowance
from soulsgui.runner.server.connection_guard import ConnectionGuard
from soulsgui.runner.server.gateway import packed
from soulsgui.wire.connection import Address
from soulsgui.wire.keys import GATEWAY, Keys
from soulsgui.wire.messages.node import NodeState
from tests.faults.report import Report
from tests.faults.waiting import LIMIT_S
from tests.gateways import knock
from tests.runner.access.test_access_control import House, connections_of
from tests.runner.running import address_of, can_ping, connected, until

KEYS = Keys()
MEMORY = 64 * 2**20
WEIGHTS = b"w" * (10 * 2**20)
WHOLE_WEIGHTS = packed(b"GETRANGE", KEYS.weights.encode(), b"0", b"-1")


@dataclass
class Attack:
    """A client that was invited, and what it opens."""

    address: Address
    opened: ExitStack = field(default_factory=ExitStack)

    def connect(self) -> socket.socket:
        made = self.opened.enter_context(knock(self.address))
        made.settimeout(LIMIT_S)
        with suppress(OSError):  # it may have been shut out meanwhile
            made.sendall(packed(b"AUTH", self.address.user.encode(), self.address.password.encode()))
            made.recv(100)
        return made


def _send(made: socket.socket, data: bytes) -> None:
    """Send as much as is taken within a moment; the server may have cut us off."""
    made.settimeout(2.0)
    try:
        made.sendall(data)
    except OSError:
        return


def half_sent_commands(attack: Attack) -> None:
    for _ in range(3):
        start = b"*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n" % (len(KEYS.beat("bad")), KEYS.beat("bad").encode())
        _send(attack.connect(), start + b"$15000000\r\n" + b"x" * 14_000_000)


def small_commands(attack: Attack) -> None:
    made = attack.connect()
    with suppress(OSError):
        while True:
            made.sendall(packed(b"PING") * 1000)
            made.recv(65_536)


@dataclass
class Guarded:
    house: House
    guard: ConnectionGuard
    cut: list[tuple[str, str]]
    clock: list[float]

    async def look(self) -> None:
        await self.house.access.look()
        await self.guard.look()

    async def until_cut_off(self) -> float:
        """Look as the runner does; return how long it took."""
        began = time.monotonic()
        async with asyncio.timeout(LIMIT_S):
            while not self.cut:
                await self.look()
                self.clock[0] += 1.0
                await asyncio.sleep(0.05)
        return time.monotonic() - began


@pytest.fixture
async def guarded(tmp_path: Path, settings: RedisSettings) -> AsyncIterator[Guarded]:
    house = House(tmp_path, settings.model_copy(update={"max_memory": MEMORY}))
    await house.new_runner()
    cut: list[tuple[str, str]] = []
    clock = [0.0]

    async def cut_off(client: str, reason: str) -> bool:
        cut.append((client, reason))
        return True

    guard = ConnectionGuard(house.bus, house.events, house.access, cut_off, lambda: clock[0])
    await house.bus.call(lambda admin: admin.set(KEYS.weights, WEIGHTS))
    yield Guarded(house, guard, cut, clock)
    house.close()


ATTACKS = [
    (half_sent_commands, 1.0),
    (small_commands, 1.0),
    pytest.param(small_commands, allowance.FLOOD_S, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("take", "flood_s"), ATTACKS)
async def test_who_takes_too_much_is_named_and_shut_out_and_nobody_else_notices(
    guarded: Guarded,
    take: Callable[[Attack], None],
    report: Report,
    monkeypatch: pytest.MonkeyPatch,
    flood_s: float,
) -> None:
    if take is small_commands:
        monkeypatch.setattr(allowance, "WORDS_PER_S", 1000)  # so many are sent also by a test beside others
    monkeypatch.setattr(allowance, "FLOOD_S", flood_s)
    good, bad = [await guarded.house.invite(name) for name in ("good", "bad")]
    attack = Attack(address_of(bad))
    with connected(address_of(good)) as beside, attack.opened:
        beside.ping()
        same = connections_of(guarded.house, "good")
        attacking = asyncio.create_task(asyncio.to_thread(take, attack))
        report.injected(f"{take.__name__} of a client")
        report.recovered(await guarded.until_cut_off())
        await attacking
        if take is small_commands:  # the gateway may name it again for what came before it was cut off
            with connected(guarded.house.server.address) as admin:

                def tick() -> int:
                    return NodeState.read(admin.get(KEYS.node(GATEWAY))).tick

                cut_off_at = tick()
                await until(lambda: tick() > cut_off_at + 1)
        ((client, _),) = guarded.cut
        assert client == "bad"
        event = guarded.house.events.newest(1)[0]
        did = "sent an endless stream of small commands" if take is small_commands else "held "
        assert event.what.startswith(f"bad was cut off: it {did}")
        assert "soulsgui revoke bad" in event.remedy
        assert not can_ping(attack.address)
        beside.xadd(KEYS.chunks("good"), {"c": b"x" * 1000})
        assert connections_of(guarded.house, "good") == same
        memory = await guarded.house.bus.call(lambda admin: admin.info("memory"))
        assert memory["used_memory"] < MEMORY / 2
        await guarded.house.invite("another")  # whatever else is changed meanwhile
        guarded.clock[0] += 59.0
        await guarded.look()
        assert not can_ping(attack.address)
        guarded.clock[0] += 2.0
        await guarded.look()
        await guarded.house.access.look()
        assert can_ping(attack.address)


async def test_who_is_invited_anew_while_it_is_shut_out_comes_in_and_begins_anew(guarded: Guarded) -> None:
    house = guarded.house
    for reissue in (False, True):
        attack = Attack(address_of(await house.invite("bad", reissue)))
        with attack.opened:
            assert can_ping(attack.address)
            attacking = asyncio.create_task(asyncio.to_thread(half_sent_commands, attack))
            await guarded.until_cut_off()
            await attacking
        guarded.cut.clear()
        assert house.events.newest(1)[0].cause.startswith("It is let in again in 1 min.")
        assert not can_ping(attack.address)


async def test_a_server_that_does_not_answer_at_once_shuts_a_client_out_at_the_next_look(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = guarded.house
    bad = address_of(await house.invite("bad"))
    with monkeypatch.context() as away:

        async def call(_operation: object) -> None:
            raise redis.TimeoutError

        away.setattr(house.bus, "call", call)
        await house.access.shut_out("bad")
    assert can_ping(bad)
    await house.access.look()
    assert not can_ping(bad)
    house.access.let_in_again("bad")
    await house.access.look()
    assert can_ping(bad)


async def test_weights_that_reach_a_client_slowly_and_are_sent_by_the_trainer_are_no_attack(
    guarded: Guarded,
) -> None:
    slow = Attack(address_of(await guarded.house.invite("slow")))
    weights = b"v" * (MEMORY // 8)
    with connected(guarded.house.server.address) as trainer, slow.opened:
        pipeline = trainer.pipeline(transaction=True)
        for number in range(1000):
            pipeline.set(KEYS.grant(f"c{number}"), b"x" * 500)
        pipeline.set(KEYS.weights, weights)
        pipeline.execute()
        made = slow.connect()
        made.sendall(WHOLE_WEIGHTS)
        chunk = b"x" * 4_000_000
        other = slow.connect()
        other.sendall(
            b"*5\r\n$4\r\nXADD\r\n$%d\r\n" % len(KEYS.chunks("slow")) + KEYS.chunks("slow").encode()
        )
        other.sendall(b"\r\n$1\r\n*\r\n$1\r\nc\r\n$4000000\r\n" + chunk[:3_000_000])
        for _ in range(15):
            await guarded.look()
            guarded.clock[0] += 1.0
        received = b""
        while len(received) < len(weights) and (part := made.recv(2**20)):
            received += part
        assert trainer.get(KEYS.weights) == weights
        other.sendall(chunk[3_000_000:] + b"\r\n")
        assert other.recv(100).startswith(b"$")
    assert guarded.cut == []
    with pytest.raises(redis.RedisError), connected(guarded.house.server.address) as trainer:
        trainer.set(KEYS.weights, b"x" * (MEMORY // 4 + 1))
