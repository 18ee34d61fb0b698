from collections.abc import Callable
from datetime import datetime

import pytest

from soulsgui.gui import text

NAN = float("nan")
NOON = datetime(2026, 11, 20, 12, 0).timestamp()


@pytest.mark.parametrize(
    ("say", "given", "said"),
    [
        (text.duration, (0,), "0.0 s"),
        (text.duration, (0.64,), "0.6 s"),
        (text.duration, (9.94,), "9.9 s"),
        (text.duration, (9.96,), "10 s"),
        (text.duration, (14.2,), "14 s"),
        (text.duration, (59.7,), "1 min"),
        (text.duration, (185,), "3 min 5 s"),
        (text.duration, (3600,), "1 h"),
        (text.duration, (3660,), "1 h 1 min"),
        (text.duration, (187_500,), "2 d 4 h"),
        (text.ago, (0.4,), "just now"),
        (text.ago, (14.9,), "14 s ago"),
        (text.ago, (130,), "2 min ago"),
        (text.ago, (7300,), "2 h ago"),
        (text.ago, (260_000,), "3 d ago"),
        (text.heartbeat, (-0.2,), "0.0 s"),
        (text.heartbeat, (0.6,), "0.6 s"),
        (text.heartbeat, (14,), "14 s"),
        (text.heartbeat, (190,), "3 min"),
        (text.uptime, (2467,), "00:41:07"),
        (text.uptime, (86_399,), "23:59:59"),
        (text.uptime, (175_267,), "2 d 00:41"),
        (text.size, (0,), "0 B"),
        (text.size, (10**400,), "—"),
        (text.value, (-(10**400),), "—"),
        (text.value, (float("inf"),), "—"),
        (text.compact, (10**400,), "—"),
        (text.clock, (1e300, NOON), "—"),
        (text.clock, (NAN, NOON), "—"),
        (text.until, (-1e15, NOON), "—"),
        (text.size, (999,), "999 B"),
        (text.size, (1000,), "1.00 KB"),
        (text.size, (999_600,), "1.00 MB"),
        (text.size, (61_200_000_000,), "61.2 GB"),
        (text.size, (5e18,), "5,000 PB"),
        (text.value, (0,), "0"),
        (text.value, (31.42,), "31.4"),
        (text.value, (-4.123,), "-4.12"),
        (text.value, (9.999,), "10.0"),
        (text.value, (0.0213,), "0.021"),
        (text.value, (475.3,), "475.3"),
        (text.value, (12_345.6,), "12,346"),
        (text.value, (-1.5e308,), "-1.5e+308"),
        (text.compact, (1e308,), "1e+308"),
        (text.value, (1.23e-5,), "1.2e-05"),
        (text.compact, (9999,), "9,999"),
        (text.compact, (12_340,), "12.3 k"),
        (text.compact, (999_400,), "999 k"),
        (text.compact, (1_234_567,), "1.23 M"),
        (text.compact, (-2e9,), "-2.00 G"),
        (text.rate, (0.5, "steps"), "0.500 steps/s"),
        (text.rate, (118.4, "steps"), "118 steps/s"),
        (text.rate, (25_300, "steps"), "25.3 k steps/s"),
        (text.percent, (0,), "0 %"),
        (text.percent, (0.42,), "0.4 %"),
        (text.percent, (38.2,), "38 %"),
        (text.percent, (9.97,), "10 %"),
        (text.reasons, ({"shape": 3, "late": 12, "size": 0},), "12 late, 3 shape"),
        (text.reasons, ({},), "—"),
        (text.sentence, ("killed after 26 s",), "killed after 26 s."),
        (text.sentence, ("It goes on.",), "It goes on."),
        (text.sentence, ("Reading …",), "Reading …"),
        (text.sentence, ("",), ""),
        (text.clock, (NOON - 60, NOON), "11:59:00"),
        (text.clock, (NOON - 86_400, NOON), "2026-11-19 12:00"),
        (text.until, (NOON + 1800, NOON), "12:30"),
        (text.until, (NOON + 1801, NOON), "12:31"),  # not before it is over
        (text.until, (NOON + 13 * 3600, NOON), "2026-11-21 01:00"),
    ],
)
def test_numbers_times_and_sizes_are_said_as_people_read_them(
    say: Callable[..., str], given: tuple[object, ...], said: str
) -> None:
    assert say(*given) == said


def test_what_stands_in_a_tooltip_is_text_and_opens_no_file() -> None:
    found = text.tip("lost: <img src='file:///x'> & more\nagain")
    assert found == "<p>lost: &lt;img src=&#x27;file:///x&#x27;&gt; &amp; more<br>again</p>"
    assert text.tip("6 > 5\nagain") == "6 > 5\nagain", "Qt takes that for text itself"


def test_what_is_not_known_or_makes_no_sense_is_a_dash() -> None:
    numbers = text.size, text.value, text.compact, text.percent
    for say in (text.duration, text.ago, text.heartbeat, text.uptime, *numbers):
        assert say(None) == say(NAN) == "—"
    assert text.duration(-1) == text.size(-1) == text.rate(None, "steps") == text.rate(0.0, "steps") == "—"
