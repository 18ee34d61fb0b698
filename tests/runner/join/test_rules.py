"""The rules of a computer's owner: what they say, and that the client follows them."""

import os
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path

import psutil
import pytest

from soulsgui.config.paths import Folders
from soulsgui.runner.join.app import ClientRunner
from soulsgui.runner.join.player import OwnerRules
from soulsgui.system import CannotTell, Presence
from soulsgui.wire.connection import Address
from soulsgui.wire.messages.owner import IDLE_AFTER_S, Rules
from tests.runner.joining import NAME, call, client, service
from tests.runner.running import until

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


def _owner_rules(path: Path, room: _Room, rules: Rules, hour: int = 12) -> OwnerRules:
    made = OwnerRules(path, room.presence, lambda pid: pid == OURS, lambda: datetime(2026, 11, 20, hour, 30))
    made.keep(rules)
    return made


# --- what the rules say ---


@pytest.mark.parametrize(
    ("begin", "end", "minute", "inside"),
    [
        (22 * 60, 8 * 60, 23 * 60, True),
        (22 * 60, 8 * 60, 7 * 60 + 59, True),
        (22 * 60, 8 * 60, 8 * 60, False),
        (22 * 60, 8 * 60, 21 * 60 + 59, False),
        (9 * 60, 17 * 60, 9 * 60, True),
        (9 * 60, 17 * 60, 17 * 60, False),
        (600, 600, 5, True),
    ],
)
def test_hours_may_reach_over_midnight(begin: int, end: int, minute: int, inside: bool) -> None:
    assert Rules(only_hours=True, begin=begin, end=end).in_hours(minute) is inside
    assert Rules(begin=begin, end=end).in_hours(minute), "without the rule every minute is one"


@pytest.mark.parametrize(("idle", "held"), [(0.0, "busy"), (IDLE_AFTER_S - 1, "busy"), (IDLE_AFTER_S, "")])
def test_somebody_at_the_computer_holds_it_back(tmp_path: Path, idle: float, held: str) -> None:
    room = _Room()
    room.idle = idle
    assert _owner_rules(tmp_path / "rules.json", room, Rules(only_idle=True)).held() == held
    assert _owner_rules(tmp_path / "rules.json", room, Rules()).held() == ""


@pytest.mark.parametrize(
    ("pid", "held"), [(None, ""), (ANOTHER, "full_screen"), (0, "full_screen"), (OURS, "")]
)
def test_a_full_screen_program_holds_it_back_unless_it_is_its_own_game(
    tmp_path: Path, pid: int | None, held: str
) -> None:
    room = _Room()
    room.full_screen = pid
    assert _owner_rules(tmp_path / "rules.json", room, Rules(not_full_screen=True)).held() == held


def test_outside_the_hours_nothing_else_matters(tmp_path: Path) -> None:
    rules = Rules(only_hours=True, only_idle=True)
    assert _owner_rules(tmp_path / "rules.json", _Room(), rules, hour=12).held() == "hours"
    assert _owner_rules(tmp_path / "rules.json", _Room(), rules, hour=23).held() == ""


@pytest.mark.parametrize(("hour", "day"), [(12, 20), (23, 21)])
def test_when_its_hours_begin_is_told(tmp_path: Path, hour: int, day: int) -> None:
    rules_of_owner = _owner_rules(
        tmp_path / "rules.json", _Room(), Rules(only_hours=True, begin=22 * 60 + 15), hour
    )
    assert datetime.fromtimestamp(rules_of_owner.hours_begin()) == datetime(2026, 11, day, 22, 15)


def test_a_rule_that_can_t_be_followed_holds_nothing_back_and_says_why(tmp_path: Path) -> None:
    room = _Room()
    room.idle = None
    rules_of_owner = _owner_rules(tmp_path / "rules.json", room, Rules(only_idle=True))
    assert rules_of_owner.held() == ""
    state = rules_of_owner.state()
    assert (state.why_not_idle, state.why_not_full_screen) == ("Nobody tells.", "")


def test_rules_are_kept(tmp_path: Path) -> None:
    path, rules = tmp_path / "client" / "rules.json", Rules(only_hours=True, begin=60, end=120)
    _owner_rules(path, _Room(), rules)
    assert OwnerRules(path, _Room().presence, lambda _: False).rules == rules
    path.write_bytes(b"{")
    assert OwnerRules(path, _Room().presence, lambda _: False).rules == Rules()


# --- the client follows them ---


@pytest.fixture
def room() -> _Room:
    return _Room()


@pytest.fixture
async def runner(
    folders: Folders, address: Address, fake_client: None, room: _Room, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ClientRunner]:
    monkeypatch.setattr("soulsgui.runner.join.app._RULES_EVERY_S", 0.05)
    made = ClientRunner(folders, NAME, presence=room.presence)
    await made.open()
    await until(lambda: client(made).state == "online")
    yield made
    await made.close()


async def test_the_client_waits_while_somebody_is_there_and_plays_on_by_itself(
    runner: ClientRunner, room: _Room
) -> None:
    room.idle = 1.0
    state = await call(runner, "rules.set", rules={"only_idle": True})
    assert state["rules"]["only_idle"]
    await until(lambda: client(runner).state == "paused")
    assert (client(runner).held, client(runner).wish) == ("busy", "run")
    room.idle = 1e6
    await until(lambda: client(runner).state == "online")
    assert client(runner).held == ""


async def test_its_own_game_may_fill_the_screen_and_the_owners_pause_outlasts_a_rule(
    runner: ClientRunner, room: _Room
) -> None:
    room.full_screen = service(runner).pid
    await call(runner, "rules.set", rules={"not_full_screen": True})
    assert (client(runner).held, client(runner).state) == ("", "online")
    room.full_screen = os.getppid()
    await until(lambda: client(runner).state == "paused")
    await call(runner, "clients.pause", client=NAME)
    room.full_screen = None
    await until(lambda: client(runner).held == "")
    assert (client(runner).state, client(runner).wish) == ("paused", "pause")
    await call(runner, "clients.resume", client=NAME)
    await until(lambda: client(runner).state == "online")


async def test_the_client_goes_behind_other_programs_and_comes_back_by_a_new_start(
    runner: ClientRunner,
) -> None:
    def pid() -> int:
        return service(runner).pid or 0

    first, normal = pid(), psutil.Process(pid()).nice()
    await call(runner, "rules.set", rules={"share": "gentle"})
    assert pid() == first, "to take less it needs no new start"
    assert psutil.Process(first).nice() != normal
    await call(runner, "rules.set", rules={"share": "full"})
    assert pid() != first
    assert psutil.Process(pid()).nice() == normal
