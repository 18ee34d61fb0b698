from datetime import datetime

import pytest

from soulsgui.gui import text

NAN = float("nan")


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, "—"),
        (NAN, "—"),
        (-1, "—"),
        (0, "0.0 s"),
        (0.64, "0.6 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (14.2, "14 s"),
        (59.7, "1 min"),
        (185, "3 min 5 s"),
        (3600, "1 h"),
        (3660, "1 h 1 min"),
        (187_500, "2 d 4 h"),
    ],
)
def test_duration(seconds: float | None, shown: str) -> None:
    assert text.duration(seconds) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, "—"),
        (0.4, "just now"),
        (14.9, "14 s ago"),
        (130, "2 min ago"),
        (7300, "2 h ago"),
        (260_000, "3 d ago"),
    ],
)
def test_ago(seconds: float | None, shown: str) -> None:
    assert text.ago(seconds) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"), [(None, "—"), (-0.2, "0.0 s"), (0.6, "0.6 s"), (14, "14 s"), (190, "3 min")]
)
def test_age_of_a_heartbeat(seconds: float | None, shown: str) -> None:
    assert text.heartbeat(seconds) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"), [(None, "—"), (2467, "00:41:07"), (86_399, "23:59:59"), (175_267, "2 d 00:41")]
)
def test_uptime(seconds: float | None, shown: str) -> None:
    assert text.uptime(seconds) == shown


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (None, "—"),
        (-1, "—"),
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 KB"),
        (999_600, "1.00 MB"),
        (61_200_000_000, "61.2 GB"),
        (5e18, "5,000 PB"),
    ],
)
def test_size(number: float | None, shown: str) -> None:
    assert text.size(number) == shown


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (None, "—"),
        (NAN, "—"),
        (0, "0"),
        (31.42, "31.4"),
        (-4.123, "-4.12"),
        (9.999, "10.0"),
        (0.0213, "0.021"),
        (475.3, "475.3"),
        (12_345.6, "12,346"),
        (1.23e-5, "1.2e-05"),
    ],
)
def test_value(number: float | None, shown: str) -> None:
    assert text.value(number) == shown


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (None, "—"),
        (9999, "9,999"),
        (12_340, "12.3 k"),
        (999_400, "999 k"),
        (1_234_567, "1.23 M"),
        (-2e9, "-2.00 G"),
    ],
)
def test_compact(number: float | None, shown: str) -> None:
    assert text.compact(number) == shown


@pytest.mark.parametrize(
    ("per_second", "shown"),
    [(None, "—"), (0.0, "—"), (0.5, "0.500 steps/s"), (118.4, "118 steps/s"), (25_300, "25.3 k steps/s")],
)
def test_rate(per_second: float | None, shown: str) -> None:
    assert text.rate(per_second, "steps") == shown


@pytest.mark.parametrize(
    ("number", "shown"), [(None, "—"), (0, "0 %"), (0.42, "0.4 %"), (38.2, "38 %"), (9.97, "10 %")]
)
def test_percent(number: float | None, shown: str) -> None:
    assert text.percent(number) == shown


def test_a_moment_of_another_day_shows_its_date() -> None:
    now = datetime(2026, 11, 20, 14, 30).timestamp()
    assert text.clock(now - 60, now) == "14:29:00"
    assert text.clock(now - 86_400, now) == "2026-11-19 14:30"


def test_numbers_agree_with_their_nouns() -> None:
    assert text.restarts(1) == "1 restart"
    assert text.restarts(0) == "0 restarts"
    assert text.restarts(1200) == "1,200 restarts"


def test_reasons_begin_with_the_most_frequent() -> None:
    assert text.reasons({"shape": 3, "late": 12, "size": 0}) == "12 late, 3 shape"
    assert text.reasons({}) == "—"


def test_a_sentence_ends_in_one_full_stop() -> None:
    said = [text.sentence(words) for words in ("killed after 26 s", "It goes on.", "Reading …", "")]
    assert said == ["killed after 26 s.", "It goes on.", "Reading …", ""]


def test_the_end_of_something_is_told_to_the_minute_and_with_its_date_when_it_is_not_today() -> None:
    noon = datetime(2026, 11, 20, 12, 0).timestamp()
    assert text.until(noon + 1800, noon) == "12:30"
    assert text.until(noon + 1801, noon) == "12:31", "not before it is over"
    assert text.until(noon + 13 * 3600, noon) == "2026-11-21 01:00"
