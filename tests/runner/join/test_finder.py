"""The server of an invitation: which address is used, what is said of others, how often they are tried."""

import http.server
import socket
import threading
from dataclasses import replace

import pytest

from soulsgui.runner.join.finder import Finder, Reply, TryResult, find_server, try_address
from soulsgui.system import free_port
from soulsgui.wire.connection import NOT_LET_IN, REVOKED, Address
from soulsgui.wire.invitation import Invitation
from tests.runner.joining import SECRET, invitation_to

LET_IN, SHUT_OUT = TryResult(Reply.LET_IN), TryResult(Reply.SHUT_OUT)
SILENT = TryResult(Reply.SILENT, "connection refused")


class World:
    """What each address answers, and a clock that the test moves on."""

    def __init__(self, *hosts: str) -> None:
        self.answers = dict.fromkeys(hosts, SILENT)
        self.now = 0.0
        self.tried: list[str] = []
        places = invitation_to(*((host, 6379) for host in hosts))
        self.finder = Finder(places, trying=self._try, clock=lambda: self.now)

    def _try(self, address: Address) -> TryResult:
        self.tried.append(address.host)
        return self.answers[address.host]

    def look(self, later: float = 0.0) -> bool:
        self.now += later
        return self.finder.look()

    @property
    def host(self) -> str:
        return self.finder.address.host if self.finder.address is not None else ""


OURS = Address("b", 6379, SECRET, "souls:", "client.gamer", "0" * 64)


@pytest.mark.parametrize("of_a", [SILENT, SHUT_OUT], ids=["silent", "another server"])
def test_addresses_are_tried_in_turn_until_one_lets_us_in(of_a: TryResult) -> None:
    world = World("a", "b", "c")
    world.answers.update(a=of_a, b=LET_IN)
    assert world.look()
    assert (world.host, world.tried) == ("b", ["a", "b"])
    assert (world.finder.address, world.finder.reachable, world.finder.error) == (OURS, True, "")
    assert world.finder.is_of(OURS)
    for other in (replace(OURS, password="older"), Address("127.0.0.1", 6379, "x")):
        assert not world.finder.is_of(other)


def test_when_none_answers_it_is_said_which_were_tried_and_why() -> None:
    world = World("a", "fd00::5")
    world.answers["fd00::5"] = TryResult(Reply.SILENT, "no answer in time")
    assert not world.look()
    said = "No answer from a:6379 (connection refused), [fd00::5]:6379 (no answer in time)."
    assert (world.finder.error, world.finder.address) == (said, None)


def test_a_found_server_is_asked_seldom_and_not_looked_for_elsewhere_when_it_is_silent_for_a_moment() -> None:
    world = World("a", "b")
    world.answers["a"] = LET_IN
    for _ in range(40):
        assert world.look(later=0.1)
    assert 2 <= len(world.tried) <= 3
    world.answers.update(a=SILENT, b=LET_IN)
    assert not world.look(later=3.0)
    assert not world.look(later=3.0)
    assert world.host == "a"
    assert world.look(later=3.0)
    assert (world.host, world.tried[-2:]) == ("b", ["a", "b"])


def test_one_that_comes_back_is_used_again_and_one_that_lets_in_no_more_is_said_to_have_revoked() -> None:
    world = World("a", "b")
    world.answers["a"] = LET_IN
    world.look()
    world.answers["a"] = SILENT
    assert not world.look(later=3.0)
    assert not world.finder.revoked
    world.answers["a"] = LET_IN
    assert world.look(later=2.0)
    assert world.host == "a"
    world.answers["a"] = SHUT_OUT
    assert not world.look(later=3.0)
    assert world.finder.revoked, "it has not just begun"
    assert world.finder.error == f"The server at a:6379 {REVOKED}"


def test_not_let_in_is_tried_again_ever_more_rarely_and_called_revoked_after_a_minute() -> None:
    world = World("a", "b")
    world.answers["b"] = SHUT_OUT
    assert not world.look()
    assert world.finder.error == f"The server at b:6379 {NOT_LET_IN}"
    while world.now < 59.9:
        world.look(later=0.1)
        assert not world.finder.revoked
    while not world.finder.revoked:
        world.look(later=0.1)
    assert world.now < 92
    assert world.finder.error == f"The server at b:6379 {REVOKED}"
    tries = len(world.tried)
    assert tries < 40
    world.answers["b"] = LET_IN
    for _ in range(301):
        world.look(later=0.1)
    assert world.finder.reachable
    assert (world.finder.revoked, world.finder.error) == (False, "")


def test_asked_to_stop_it_tries_no_further_address() -> None:
    stop = threading.Event()
    tried: list[str] = []

    def once(address: Address) -> TryResult:
        tried.append(address.host)
        stop.set()
        return SILENT

    finder = Finder(invitation_to(("a", 1), ("b", 1)), stop, once)
    assert not finder.look()
    assert tried == ["a"]


def test_a_try_tells_who_lets_us_in(invitation: Invitation, redis_address: Address) -> None:
    closed, open_ = (invitation.address(host, port) for host, port in invitation.addresses)
    assert try_address(open_) == LET_IN
    assert try_address(closed) == SILENT
    assert try_address(replace(open_, password="wrong")) == SHUT_OUT
    assert try_address(replace(redis_address, password="")) == SHUT_OUT
    assert try_address(replace(open_, host="no..name")).reply is Reply.SILENT
    unknown = try_address(replace(open_, host="nobody.invalid"))
    assert (unknown.reply, bool(unknown.why)) == (Reply.SILENT, True)


def test_a_try_of_a_silent_server_ends_and_another_program_is_no_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        found = try_address(Address("127.0.0.1", silent.getsockname()[1], "x", user="client.gamer"))
    assert found == TryResult(Reply.SILENT, "no answer in time")

    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as web:
        serving = threading.Thread(target=web.serve_forever)
        serving.start()
        found = try_address(Address("127.0.0.1", web.server_port, "x", user="client.gamer"))
        web.shutdown()
        serving.join()
    assert (found.reply, bool(found.why)) == (Reply.SILENT, True)


@pytest.mark.allow_warnings
def test_the_search_finds_what_works_or_says_what_it_tried_once_and_ends_when_asked(
    invitation: Invitation, caplog: pytest.LogCaptureFixture
) -> None:
    found = find_server(invitation, threading.Event())
    assert found.port == invitation.addresses[1][1]
    caplog.clear()
    port = free_port()

    class Asked(threading.Event):
        """Asks to stop after some looks."""

        looks = 0

        def wait(self, timeout: float | None = None) -> bool:
            self.looks += 1
            if self.looks == 3:
                self.set()
            return super().wait(timeout)

    assert find_server(invitation_to(("127.0.0.1", port)), Asked()) is None
    (said,) = [record.getMessage() for record in caplog.records]
    assert said == f"No answer from 127.0.0.1:{port} (connection refused). It is tried again."
