"""The rules of a computer's owner: what they say, and that the client follows them."""

import os
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path

import psutil
import pytest

from soulsgui.config.paths import Folders
from soulsgui.runner.join.app import ClientRunner
from soulsgui.runner.join.player import OwnerRules, unconfined
from soulsgui.system import CannotTell, Presence, why_not_confined
from soulsgui.wire.connection import Address
from soulsgui.wire.messages.owner import IDLE_AFTER_S, Rules
from tests.runner.joining import NAME, client, comes_to_be, service
from tests.runner.running import call, opened, until

OURS, ANOTHER = 11, 22


class _Room:
    """A computer with somebody at it, or nobody."""

    def __init__(self) -> None:
        self.idle: float | None = 1e6
        self.full_screen: int | None = None

    def idle_s(self) -> float:
        if self.idle is None:
            raise CannotTell("Nobody tells.")
        return self.idle

    def notification_state(self) -> int:
        return 5 if self.full_screen is None else 2

    def foreground_pid(self) -> int:
        return self.full_screen or 0

    @property
    def presence(self) -> Presence:
        return Presence("win32", windows=lambda: self)


@pytest.fixture
def room() -> _Room:
    return _Room()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "client" / "rules.json"


def _owner_rules(path: Path, room: _Room, hour: int = 12, **rules: object) -> OwnerRules:
    made = OwnerRules(path, room.presence, lambda pid: pid == OURS, lambda: datetime(2026, 11, 20, hour, 30))
    made.keep(Rules.model_validate(rules))
    return made


@pytest.mark.parametrize(
    ("begin", "end", "inside", "outside"),
    [
        (22 * 60, 8 * 60, (23 * 60, 7 * 60 + 59), (8 * 60, 21 * 60 + 59)),
        (9 * 60, 17 * 60, (9 * 60,), (17 * 60,)),
        (600, 600, (5,), ()),
    ],
)
def test_hours_may_reach_over_midnight(begin: int, end: int, inside: list[int], outside: list[int]) -> None:
    rules, without = Rules(only_hours=True, begin=begin, end=end), Rules(begin=begin, end=end)
    assert all(rules.in_hours(minute) for minute in inside)
    assert not any(rules.in_hours(minute) for minute in outside)
    assert all(without.in_hours(minute) for minute in (*inside, *outside)), "every minute is one"


@pytest.mark.parametrize(
    ("rule", "idle", "full_screen", "hour", "held"),
    [
        ("only_idle", 0.0, None, 12, "busy"),
        ("only_idle", IDLE_AFTER_S - 1, None, 12, "busy"),
        ("only_idle", IDLE_AFTER_S, None, 12, ""),
        ("not_full_screen", 1e6, None, 12, ""),
        ("not_full_screen", 1e6, ANOTHER, 12, "full_screen"),
        ("not_full_screen", 1e6, 0, 12, "full_screen"),
        ("not_full_screen", 1e6, OURS, 12, ""),
        ("only_hours", 1e6, None, 12, "hours"),
        ("only_hours", 1e6, None, 23, ""),
    ],
)
def test_what_holds_it_back_is_told_and_only_where_that_is_a_rule(
    path: Path, room: _Room, rule: str, idle: float, full_screen: int | None, hour: int, held: str
) -> None:
    room.idle, room.full_screen = idle, full_screen
    assert _owner_rules(path, room, hour, **{rule: True}).held() == held
    assert _owner_rules(path, room, hour).held() == ""


def test_outside_the_hours_nothing_else_matters_and_what_can_t_be_followed_holds_nothing_back(
    path: Path, room: _Room
) -> None:
    room.idle = 0.0
    assert _owner_rules(path, room, only_hours=True, only_idle=True).held() == "hours"
    room.idle = None
    rules = _owner_rules(path, room, only_idle=True)
    assert rules.held() == ""
    assert (rules.state().why_not_idle, rules.state().why_not_full_screen) == ("Nobody tells.", "")


@pytest.mark.parametrize(("hour", "day"), [(12, 20), (23, 21)])
def test_when_its_hours_begin_is_told(path: Path, room: _Room, hour: int, day: int) -> None:
    rules = _owner_rules(path, room, hour, only_hours=True, begin=22 * 60 + 15)
    assert datetime.fromtimestamp(rules.hours_begin()) == datetime(2026, 11, day, 22, 15)


def test_rules_are_kept(path: Path, room: _Room) -> None:
    made = _owner_rules(path, room, only_hours=True, begin=60, end=120)
    assert OwnerRules(path, room.presence, lambda _: False).rules == made.rules != Rules()
    path.write_bytes(b"{")
    assert OwnerRules(path, room.presence, lambda _: False).rules == Rules()


@pytest.fixture
async def runner(
    folders: Folders, address: Address, fake_client: None, room: _Room, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ClientRunner]:
    monkeypatch.setattr("soulsgui.runner.join.app._RULES_EVERY_S", 0.05)
    async with opened(ClientRunner(folders, NAME, presence=room.presence)) as made:
        await comes_to_be(made, "online")
        yield made


async def test_the_client_waits_only_while_somebody_is_there_its_game_may_fill_the_screen_and_pauses_stay(
    runner: ClientRunner, room: _Room
) -> None:
    room.idle = 1.0
    state = await call(runner, "rules.set", rules={"only_idle": True})
    assert state["rules"]["only_idle"]
    await comes_to_be(runner, "paused")
    assert (client(runner).held, client(runner).wish) == ("busy", "run")
    room.idle = 1e6
    await comes_to_be(runner, "online")
    assert client(runner).held == ""
    room.full_screen = service(runner).pid
    await call(runner, "rules.set", rules={"not_full_screen": True})
    assert (client(runner).held, client(runner).state) == ("", "online")
    room.full_screen = os.getppid()
    await comes_to_be(runner, "paused")
    await call(runner, "clients.pause", client=NAME)
    room.full_screen = None
    await until(lambda: client(runner).held == "")
    assert (client(runner).state, client(runner).wish) == ("paused", "pause")
    await call(runner, "clients.resume", client=NAME)
    await comes_to_be(runner, "online")


async def test_where_the_client_may_write_is_another_with_a_new_start(runner: ClientRunner) -> None:
    first = service(runner).pid
    state = await call(runner, "rules.set", rules={"writes_anywhere": True})
    assert state["rules"]["writes_anywhere"]
    assert state["why_not_confined"] == why_not_confined()
    second = service(runner).pid
    assert second != first
    assert unconfined(runner.owner_rules.rules) == "You have allowed it."
    assert client(runner).unconfined == "", "this computer's own server may do anything"
    await call(runner, "rules.set", rules={"only_idle": True})
    assert service(runner).pid not in (first, second)
    assert unconfined(runner.owner_rules.rules) == why_not_confined()


async def test_the_client_goes_behind_other_programs_and_back_by_a_new_start(runner: ClientRunner) -> None:
    def pid() -> int:
        return service(runner).pid or 0

    first, normal = pid(), psutil.Process(pid()).nice()
    await call(runner, "rules.set", rules={"share": "gentle"})
    assert pid() == first, "to take less it needs no new start"
    assert psutil.Process(first).nice() != normal
    await call(runner, "rules.set", rules={"share": "full"})
    assert pid() != first
    assert psutil.Process(pid()).nice() == normal
