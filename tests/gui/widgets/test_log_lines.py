from datetime import datetime

from soulsgui.gui.colours import Tone
from soulsgui.gui.widgets.log_pane import LogBuffer, LogFilter, rank, tone, written
from soulsgui.wire.control import LogLine


def line(number: int, text: str = "text", level: str = "info", service: str = "trainer") -> LogLine:
    return LogLine(service=service, number=number, time=0.0, level=level, text=text)


def places(buffer: LogBuffer) -> list[tuple[str, int]]:
    return [(each.service, each.number) for each, _ in buffer.wanted()]


def test_levels_are_ordered_and_coloured() -> None:
    ranks = {"DEBUG": 0, "info": 1, "": 1, "WARN": 2, "warning": 2, "error": 3, "CRITICAL": 3}
    assert {level: rank(level) for level in ranks} == ranks
    assert tone("error") is Tone.BAD
    assert tone("") is Tone.TEXT


def test_a_line_is_written_in_columns_without_control_characters() -> None:
    moment = datetime(2026, 11, 20, 14, 2, 9).timestamp()
    given = LogLine(
        service="redis", number=1, time=moment, level="info", text="\x1b[31mready\x1b[0m\x07 now \n"
    )
    assert written(given) == "14:02:09  redis       INFO     \ufffd[31mready\ufffd[0m\ufffd now"
    assert written(given, with_service=False) == "14:02:09  INFO     \ufffd[31mready\ufffd[0m\ufffd now"
    assert written(LogLine(service="x", number=2, text="bare"), with_service=False) == "bare"


def test_lines_that_come_twice_are_kept_once_per_service() -> None:
    buffer = LogBuffer()
    buffer.add([line(1), line(2), line(1, service="redis")])
    buffer.add([line(2), line(3)])
    assert places(buffer) == [("trainer", 1), ("trainer", 2), ("redis", 1), ("trainer", 3)]
    buffer.clear()
    buffer.add([line(1)])
    assert places(buffer) == [("trainer", 1)], "forgotten ones may come again"


def test_fresh_lines_are_given_once_and_only_when_wanted_as_the_line_before_without_a_level() -> None:
    buffer = LogBuffer()
    buffer.filter = LogFilter("error")
    buffer.add([line(1, level="error"), line(1, level="info", service="redis"), line(2, level="")])
    buffer.add([line(2, level="", service="redis"), line(3, level="")])
    assert [each.number for each, _ in buffer.take_fresh()] == [1, 2, 3]
    assert buffer.take_fresh() == []
    assert places(buffer) == [("trainer", 1), ("trainer", 2), ("trainer", 3)]
    buffer.filter = LogFilter("debug")
    assert len(places(buffer)) == 5


def test_older_lines_are_put_before_and_push_out_the_newest() -> None:
    buffer = LogBuffer(limit=5)
    buffer.add([line(number) for number in range(10, 13)])
    assert not buffer.prepend([line(8), line(9)])
    assert buffer.prepend([line(6), line(7)])
    assert [each.number for each in buffer.lines] == [6, 7, 8, 9, 10]
    assert buffer.place_of("trainer", 8) == 2
    assert buffer.place_of("trainer", 12) is None
