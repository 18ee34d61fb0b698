import logging

from soulsgui.errors import error_words, printable
from soulsgui.process import LineFormatter


def test_control_characters_and_line_breaks_are_replaced() -> None:
    shown = {
        "plain, even ü and 中": "plain, even ü and 中",
        "\x1b[2Jgone": "\ufffd[2Jgone",
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


class _Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_an_error_that_can_not_say_itself_is_said_all_the_same() -> None:
    assert error_words(ValueError("bad")) == "ValueError: bad"
    assert error_words(KeyError()) == "KeyError"
    assert error_words(_Speechless()) == "_Speechless: (its words can't be read: RuntimeError)"
