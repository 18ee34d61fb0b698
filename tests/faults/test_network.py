"""The network between client and server fails: gone (R9), half-open (R10), elsewhere (R21), no reply (R8)."""

import socket
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from soulsgui.system import free_port
from soulsgui.wire import connection as connection_module
from soulsgui.wire.connection import Address
from tests.faults.proxy import Proxy
from tests.faults.report import Report
from tests.faults.server import faulty_server
from tests.faults.waiting import until
from tests.sampling.free_trainer import (
    LENGTH,
    FreeTrainer,
    PlayingClient,
    check_whole,
    playing_client,
    settings,
    stored_steps,
)

ENVS = 3
BUFFER = 2**16
# A chunk more than fits may wait, and what was sent without an answer can't be dropped.
BUFFER_AND_CHUNK = BUFFER + 16_384

BACK_WITHIN_S, AT_ANOTHER_ADDRESS_WITHIN_S = 5.0, 30.0
GONE_S = [2.0, pytest.param(60.0, marks=pytest.mark.slow)]

pytestmark = pytest.mark.allow_warnings


@pytest.fixture(autouse=True)
def _impatient(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a quick test wait for a reply a fifth as long as a client does."""
    if request.node.get_closest_marker("slow") is None:
        monkeypatch.setattr(connection_module, "_SOCKET_TIMEOUT_S", 1.0)


@pytest.fixture
def proxy(redis_address: Address) -> Iterator[Proxy]:
    with closing(Proxy(redis_address)) as made:
        yield made


@pytest.fixture
def trainer(redis_address: Address, request: pytest.FixtureRequest) -> Iterator[FreeTrainer]:
    """A trainer on the server's side of the network; a test may change its settings."""
    short = {"client__segment_length": 16, "client__segment_seconds": 0.05}
    made = FreeTrainer(redis_address, **(short | getattr(request, "param", {})))
    made.publish(1)
    yield made
    made.close()


def until_it_plays(trainer: FreeTrainer, client: PlayingClient) -> None:
    trainer.grant(None)
    since = trainer.steps()
    until(lambda: trainer.steps() > since, "samples arrive")
    until(lambda: trainer.beat(), "a beat")


def heard_again(trainer: FreeTrainer, report: Report) -> float:
    """Wait until a beat and samples are new on the server; note and return how long that took."""
    began, steps = time.monotonic(), trainer.steps()
    trainer.connection.delete(trainer.keys.beat("c"))
    until(lambda: trainer.steps() > steps, "samples arrive again")
    until(trainer.beat, "it beats again")
    report.recovered(back_s := time.monotonic() - began)
    return back_s


def all_arrives(trainer: FreeTrainer, client: PlayingClient, report: Report) -> None:
    """Let a client that loses nothing pause, and check that all is here."""
    trainer.wish("pause")
    until(lambda: trainer.steps() == client.progress.env_steps, "all of it is here")
    check_whole(trainer.received())
    report.lost(client.progress.dropped, "steps")
    assert client.progress.dropped == 0


@settings(client__buffer_bytes=BUFFER, client__when_full="drop_oldest")
@pytest.mark.parametrize("gone_s", [0.5, pytest.param(60.0, marks=pytest.mark.slow)])
def test_a_client_that_may_drop_plays_on_without_a_network_and_counts_what_it_dropped(
    trainer: FreeTrainer, proxy: Proxy, report: Report, gone_s: float
) -> None:
    with playing_client(proxy.address) as client:
        until_it_plays(trainer, client)
        proxy.stall()
        client.until_dropped(10_000)
        dropped = client.progress.dropped
        highest = _without_network(proxy, client, gone_s)
        assert client.progress.dropped > dropped, "it plays on"
        back_s = heard_again(trainer, report)
        assert back_s <= BACK_WITHIN_S or gone_s < 60  # beside other tests the clock says nothing
        # What was made is on the server once, or counted as dropped, and the server knows the number.
        trainer.wish("pause")
        until(lambda: client.progress.buffered_bytes == 0, "all that is left is sent")
        steps = len(stored_steps(trainer.received()))
        assert steps + client.progress.dropped == client.progress.env_steps
        until(lambda: getattr(trainer.beat(), "dropped", -1) == client.progress.dropped, "the server is told")
    report.injected(f"no network for {gone_s:g} s and until 10,000 steps were dropped")
    report.lost(client.progress.dropped, "steps")
    assert BUFFER // 2 < highest <= BUFFER_AND_CHUNK


def _without_network(proxy: Proxy, client: PlayingClient, gone_s: float) -> int:
    """Stall the network for a while; return the most bytes that the client held."""
    highest = 0
    proxy.stall()
    over = time.monotonic() + gone_s
    while time.monotonic() < over:
        highest = max(highest, client.progress.buffered_bytes)
        client.stop.wait(0.02)
    proxy.flow()
    return highest


@settings(client__buffer_bytes=BUFFER)
@pytest.mark.parametrize("gone_s", GONE_S)
def test_a_client_that_may_wait_waits_without_a_network_and_loses_nothing(
    trainer: FreeTrainer, proxy: Proxy, report: Report, gone_s: float
) -> None:
    with playing_client(proxy.address) as client:
        until_it_plays(trainer, client)
        proxy.stall()
        client.until_phase("waiting")
        made = client.progress.env_steps
        highest = _without_network(proxy, client, gone_s)
        assert client.progress.env_steps == made, "it waits between two steps"
        back_s = heard_again(trainer, report)
        assert back_s <= BACK_WITHIN_S or gone_s < 60  # beside other tests the clock says nothing
        all_arrives(trainer, client, report)
    report.injected(f"no network for {gone_s:g} s, wait")
    assert BUFFER < highest <= BUFFER_AND_CHUNK


@pytest.mark.parametrize("paused", [False, True], ids=["playing", "paused"])
def test_a_half_open_connection_is_noticed(
    trainer: FreeTrainer, proxy: Proxy, report: Report, paused: bool
) -> None:
    with playing_client(proxy.address) as client:
        until_it_plays(trainer, client)
        if paused:
            trainer.wish("pause")
        began = time.monotonic()
        swallowed, taken = proxy.swallow()
        until(lambda: proxy.accepted >= taken + swallowed, "each connection is made anew")
        report.injected(f"{swallowed} half-open connections ({client.progress.phase})")
        report.recovered(time.monotonic() - began)
        all_arrives(trainer, client, report)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere 127.0.0.2 is nobody's address")
@pytest.mark.parametrize("alone", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_client_is_back_when_the_name_of_its_server_means_another_address(
    trainer: FreeTrainer, redis_address: Address, report: Report, monkeypatch: pytest.MonkeyPatch, alone: bool
) -> None:
    """The old address does not answer any more, and refuses nothing: nobody is there."""
    port, resolve = free_port(), socket.getaddrinfo

    def named(means: str) -> None:
        def changed(host: Any, *args: Any, **kwargs: Any) -> Any:
            return resolve(means if host == "server.test" else host, *args, **kwargs)

        monkeypatch.setattr(socket, "getaddrinfo", changed)

    hosts = ("127.0.0.1", "127.0.0.2")
    old, new = (Proxy(redis_address, host, port) for host in hosts)
    with closing(old), closing(new):
        named("127.0.0.1")
        with playing_client(replace(redis_address, host="server.test", port=port)) as client:
            until_it_plays(trainer, client)
            assert new.accepted == 0
            old.stall()
            named("127.0.0.2")
            back_s = heard_again(trainer, report)
            assert back_s <= AT_ANOTHER_ADDRESS_WITHIN_S or not alone
            assert new.accepted > 0
            all_arrives(trainer, client, report)
        report.injected("the server's name means another address")


@pytest.mark.skipif(sys.platform == "win32", reason="SIGSTOP is POSIX's")
@pytest.mark.parametrize("freezes", [3, pytest.param(30, marks=pytest.mark.slow)])
def test_what_is_pushed_into_a_frozen_server_is_stored_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report: Report, freezes: int
) -> None:
    """The server takes the bytes, its replies come when nobody waits for them any more, all is sent again."""
    monkeypatch.setattr(connection_module, "_SOCKET_TIMEOUT_S", 0.2)
    with faulty_server(tmp_path) as server:
        trainer = FreeTrainer(server.address, client__segment_seconds=0.01, client__buffer_bytes=BUFFER)
        trainer.publish(1)
        with playing_client(server.address) as client:
            session = trainer.hello()
            trainer.grant(None)
            for _ in range(freezes):
                since = trainer.steps()
                until(lambda seen=since: trainer.steps() > seen + LENGTH, "steps arrive")  # type: ignore[misc]
                with server.frozen():
                    assert not client.stop.wait(0.6)  # three times as long as a client waits for a reply
                thawed, since = time.monotonic(), trainer.steps()
                until(lambda seen=since: trainer.steps() > seen, "steps arrive again")  # type: ignore[misc]
                report.recovered(time.monotonic() - thawed)
            all_arrives(trainer, client, report)
            assert trainer.sessions() == [session]
            assert [one.number for one in trainer.received()] == list(range(len(trainer.received())))
        trainer.close()
    report.injected(f"{freezes} times a frozen server during pushes")
