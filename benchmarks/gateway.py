"""The gateway against the bare socket behind it: round trips, chunks, weights, a thousand clients.

The server is the same; each figure is taken both ways in turn. The gateway is a process of its own, as it is
in a real server; `processor` is its time alone. Weights for many clients are fetched at once, and the time is
until all of them have theirs. A thousand clients connect by one process, say who they are, and are answered.
"""

import asyncio
import secrets
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import redis

from benchmarks.report import Measured, run
from soulsgui.process import child_env, own_command
from soulsgui.runner.access.certificate import ensure_certificate
from soulsgui.system import free_port
from soulsgui.wire.access import secret_hash, user_of, user_words
from soulsgui.wire.connection import AWAY, Address, connect, connect_async
from soulsgui.wire.keys import Keys
from tests.faults.waiting import until
from tests.servers import running_server

CHUNK = bytes(5_000)
AT_ONCE = 100
WEIGHTS_BYTES = 20_000_000


@contextmanager
def running_gateway(folder: Path) -> Iterator[tuple[Address, Address, psutil.Process]]:
    """Yield the address by the socket, that by the gateway, and the gateway's process."""
    with running_server(folder, more="maxmemory 4gb\nmaxclients 20000") as address:
        pin = ensure_certificate(folder).pin
        inside = replace(address, port=free_port(), socket=str(folder / "redis.sock"), pin=pin)
        inside.write(folder / "redis.json")
        words = [*own_command("gateway"), "--server-file", str(folder / "redis.json")]
        process = subprocess.Popen(words, env=child_env(), stderr=subprocess.DEVNULL)
        try:
            yield inside, replace(inside, socket=""), psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait()


def invite(inside: Address, outside: Address, count: int) -> list[tuple[Address, Address]]:
    """Let so many clients in; return the addresses of each, by the socket and by the gateway."""
    made = []
    with closing(connect(inside)) as admin:
        pipeline = admin.pipeline(transaction=False)
        for number in range(count):
            name, secret = f"c{number}", secrets.token_urlsafe(32)
            words = user_words(name, inside.prefix, secret_hash(secret))
            pipeline.execute_command("ACL", "SETUSER", user_of(name), *words)
            own = {"user": user_of(name), "password": secret}
            made.append((replace(inside, **own), replace(outside, **own)))
        pipeline.execute()
    until(lambda: _answers(made[0][1]), "the gateway listens")
    return made


def _answers(address: Address) -> bool:
    with closing(connect(address)) as own:
        try:
            return bool(own.ping())
        except AWAY:
            return False


def round_trip_us(connection: redis.Redis, count: int) -> float:
    """Return the median of so many pings."""
    times = []
    for _ in range(count):
        began = time.perf_counter()
        connection.ping()
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e6


def chunks_mb_s(connection: redis.Redis, count: int) -> float:
    """Return how many MB of chunks a second are put on a stream, `AT_ONCE` to a pipeline."""
    key = Keys().chunks("c0")
    began = time.perf_counter()
    for _ in range(count // AT_ONCE):
        pipeline = connection.pipeline(transaction=False)
        for _ in range(AT_ONCE):
            pipeline.xadd(key, {"c": CHUNK}, maxlen=10, approximate=False)
        pipeline.execute()
    return count * len(CHUNK) / 1e6 / (time.perf_counter() - began)


async def fetch_all(addresses: list[Address]) -> float:
    """Return the seconds until each of these clients has the weights."""
    clients = [connect_async(address, 120.0) for address in addresses]
    key = Keys(addresses[0].prefix).weights
    await asyncio.gather(*(one.ping() for one in clients))
    began = time.perf_counter()
    for got in await asyncio.gather(*(one.getrange(key, 0, -1) for one in clients)):
        assert len(got) == WEIGHTS_BYTES
    taken = time.perf_counter() - began
    await asyncio.gather(*(one.aclose() for one in clients))
    return taken


async def connect_all(addresses: list[Address]) -> float:
    """Return the seconds until each of these clients was let in and answered."""
    clients = [connect_async(address, 60.0) for address in addresses]

    async def come_in(one: "redis.asyncio.Redis") -> None:
        while True:
            try:
                await one.ping()
            except AWAY:  # too many of one address at once, as behind a router
                await asyncio.sleep(0.05)
            else:
                return

    began = time.perf_counter()
    await asyncio.gather(*(come_in(one) for one in clients))
    taken = time.perf_counter() - began
    await asyncio.gather(*(one.aclose() for one in clients))
    return taken


def measure(quick: bool) -> list[Measured]:
    """Measure each figure by the gateway and by the bare socket, in turn."""
    repeats, pings, chunks = (3, 200, 1_000) if quick else (5, 3_000, 20_000)
    many, clients = (5, 100) if quick else (100, 1_000)
    found: dict[str, list[tuple[float, float]]] = {}

    def note(name: str, by_gateway: float, bare: float) -> None:
        found.setdefault(name, []).append((by_gateway, bare))

    with tempfile.TemporaryDirectory() as named:
        folder = Path(named)
        with running_gateway(folder) as (inside, outside, process):
            both = invite(inside, outside, clients)
            with closing(connect(inside)) as admin:
                admin.set(Keys(inside.prefix).weights, secrets.token_bytes(WEIGHTS_BYTES))
            with closing(connect(both[0][0])) as bare, closing(connect(both[0][1])) as way_in:
                for _ in range(repeats):
                    note("round trip, µs", round_trip_us(way_in, pings), round_trip_us(bare, pings))
                    before = sum(process.cpu_times()[:2])
                    by_gateway = chunks_mb_s(way_in, chunks)
                    spent = sum(process.cpu_times()[:2]) - before
                    note("chunks of 5 kB, MB/s", by_gateway, chunks_mb_s(bare, chunks))
                    note("its processor time, ms/MB", spent * 1e3 / (chunks * len(CHUNK) / 1e6), 1.0)
            for _ in range(repeats):
                for count in (1, many):
                    taken = [asyncio.run(fetch_all([one[way] for one in both[:count]])) for way in (1, 0)]
                    note(f"weights of 20 MB to {count}, s", *taken)
                taken = [asyncio.run(connect_all([one[way] for one in both])) for way in (1, 0)]
                note(f"{clients:,} clients come in, s", *taken)
            memory = process.memory_info().rss / 2**20
    figures = []
    for name, pairs in found.items():
        what, _, unit = name.rpartition(", ")
        value, limit = (statistics.median(side) for side in zip(*pairs, strict=True))
        reference = "a millisecond" if unit == "ms/MB" else "the bare socket"
        figures.append(Measured(what, value, unit, limit, reference, value / limit, len(pairs)))
    figures.append(Measured("its memory then", memory, "MiB", 100.0, "100 MiB", memory / 100.0, 1))
    return figures


if __name__ == "__main__":
    run(measure)
