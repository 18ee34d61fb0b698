from types import SimpleNamespace
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from soulsgui.gui import text
from soulsgui.gui.overview.since import SinceStrip, happened
from soulsgui.wire.control import Event
from tests.gui.fake_feed import HELLO, LIVE, LOST, FakeFeed, FakeShell
from tests.gui.reading import words_of

LEFT = 1_790_000_000.0


def event(number: int, what: str, level: str = "warning", **fields: Any) -> Event:
    usual = {"number": number, "time": LEFT + number, "level": level, "what": what}
    return Event.model_validate(usual | fields)


NIGHT = [
    event(4, "trainer ended unexpectedly", service="trainer", cause="killed by signal 9"),
    event(5, "The trainer continues at 12,000 steps (attempt 2): nothing is lost", "info", service="trainer"),
    event(6, "trainer ended unexpectedly", service="trainer", cause="killed by signal 9"),
    event(7, "The trainer continues at 14,000 steps (attempt 3): nothing is lost", "info", service="trainer"),
    event(8, "gamer-03 is lost.", service="trainer", topic="client_lost"),
    event(9, "gamer-04 is lost.", service="trainer", topic="client_lost"),
    event(10, "gamer-04 is back.", "info", service="trainer"),
    event(11, "The goal is reached", "info", topic="goal"),
    event(12, "client-1 failed", "error", service="client-1"),
    event(13, "client-2 failed", "error", service="client-2"),
]


def test_events_are_summed_up_by_kind_and_say_how_it_went_on() -> None:
    def at(number: int) -> str:
        return text.clock(LEFT + number, LEFT)

    assert [one.words for one in happened(NIGHT, LEFT)] == [
        f"{at(6)} trainer ended unexpectedly, 2 times; "
        "The trainer continues at 14,000 steps (attempt 3): nothing is lost",
        f"{at(9)} gamer-04 is lost, and 1 more",
        f"{at(11)} The goal is reached",
        f"{at(13)} client-2 failed, and 1 more",
    ]
    assert happened([event(1, "gamer-01 was invited.", "info"), event(2, "A test", topic="test")], LEFT) == []


@pytest.fixture
def now() -> SimpleNamespace:
    return SimpleNamespace(time=LEFT, in_front=True)


@pytest.fixture
def strip(qtbot: QtBot, fake: FakeFeed, shell: FakeShell, now: SimpleNamespace) -> SinceStrip:
    fake.hello = HELLO
    fake.events = [event(3, "seen already")]
    return made(qtbot, fake, shell, now)


def made(qtbot: QtBot, fake: FakeFeed, shell: FakeShell, now: SimpleNamespace) -> SinceStrip:
    strip = SinceStrip(fake, shell, None, lambda: now.time, lambda: now.in_front)
    qtbot.addWidget(strip)
    return strip


def come_back(fake: FakeFeed, now: SimpleNamespace, after_s: float) -> None:
    now.in_front = False
    now.time += after_s
    fake.connect_as(LIVE)
    now.in_front = True
    fake.connect_as(LIVE)


def test_who_comes_back_is_told_and_led_to_the_moment(
    strip: SinceStrip, fake: FakeFeed, now: SimpleNamespace
) -> None:
    fake.events += NIGHT
    come_back(fake, now, 60.0)
    assert strip.isHidden(), "not away for long"
    fake.events += [event(14, "<b>gamer-05</b> & co fail", cause="no such file")]
    come_back(fake, now, 3600.0)
    assert words_of(strip) == f"Since you last looked ({text.clock(LEFT + 60, now.time)}):"
    assert [link.text() for link in strip.links] == [
        f"{text.clock(LEFT + 14, now.time)} <b>gamer-05</b> && co fail"
    ]
    assert "no such file" in strip.links[0].toolTip()
    chosen: list[Event] = []
    strip.chosen.connect(chosen.append)
    strip.links[0].click()
    assert chosen == fake.events[-1:]
    strip.dismiss.click()
    come_back(fake, now, 3600.0)
    assert strip.isHidden(), "nothing happened"


def test_the_moment_is_kept_for_the_next_start_and_events_may_come_after_a_sleep(
    qtbot: QtBot, strip: SinceStrip, shell: FakeShell, now: SimpleNamespace
) -> None:
    now.time += 30_000.0
    later = FakeFeed(connection=LOST, hello=HELLO)
    next_start = made(qtbot, later, shell, now)
    later.connect_as(LIVE)
    assert next_start.isHidden()
    later.events = [event(number, f"trouble {chr(96 + number)}") for number in range(1, 11)]
    later.take_snapshot(later.status)
    said = [link.text() for link in next_start.links]
    assert (len(said), said[0]) == (5, "3 before")
    assert said[1].endswith("trouble g")
