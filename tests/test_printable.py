import logging
import re
from pathlib import Path

from soulsgui import cli
from soulsgui.errors import error_words, printable
from soulsgui.process import LineFormatter, parse_line


def test_control_characters_and_line_breaks_are_replaced() -> None:
    shown = {
        "plain, even ü and 中": "plain, even ü and 中",
        "\x1b[2Jgone": "\ufffd[2Jgone",
        "62\N{NO-BREAK SPACE}%": "62\N{NO-BREAK SPACE}%",
        "one\r\n2026 INFO forged": "one  2026 INFO forged",
        "right\u202eleft\x9b\x00": "right\ufffdleft\ufffd\ufffd",
        "lone \ud800": "lone \ufffd",
    }
    assert {text: printable(text) for text in shown} == shown


def test_long_text_is_cut_and_lines_stay_where_they_are_wanted() -> None:
    assert printable("x" * 600, 10) == "x" * 9 + "…"
    assert printable("x" * 600, None) == "x" * 600
    assert printable("a\n\tb\x1b", lines=True) == "a\n\tb\ufffd"


def test_the_log_holds_no_control_characters() -> None:
    record = logging.LogRecord("n", logging.INFO, "f", 1, "%s refused", ("\x1b[31mevil\x07",), None)
    assert "\ufffd[31mevil\ufffd refused" in LineFormatter().format(record)


def test_a_message_of_several_lines_forges_no_line_of_the_log() -> None:
    forged = "it broke\n2026-11-20 10:00:00.000 ERROR soulsgui: lost\n1:M 20 Nov 2026 10:00:00.000 # lost"
    record = logging.LogRecord("n", logging.INFO, "f", 1, "%s", (forged,), None)
    lines = LineFormatter().format(record).split("\n")
    assert [parse_line(line).level for line in lines] == ["info", "", ""]


class _Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_an_error_that_can_not_say_itself_is_said_all_the_same() -> None:
    assert error_words(ValueError("bad")) == "ValueError: bad"
    assert error_words(KeyError()) == "KeyError"
    assert error_words(_Speechless()) == "_Speechless: (its words can't be read: RuntimeError)"


def test_what_the_command_line_writes_goes_through_one_function() -> None:
    ways = ("say(", "say_json(", "printable(", "\\x1b[", '"\\n"')
    for path in Path(cli.__file__).parent.glob("*.py"):
        for line in path.read_text(encoding="utf-8").splitlines():
            if re.search(r"\bprint\(|std(out|err)\.write\(", line):
                assert any(way in line for way in ways), f"{path.name}: {line.strip()}"
