import time
from itertools import pairwise

from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from soulsgui.gui.throttle import Throttle


def test_many_requests_become_few_calls_and_the_last_one_counts(qtbot: QtBot) -> None:
    widget = QWidget()
    qtbot.addWidget(widget)
    widget.show()
    calls: list[float] = []
    throttle = Throttle(widget, lambda: calls.append(time.monotonic()), 50)
    begin = time.monotonic()
    while time.monotonic() - begin < 0.28:
        throttle.request()
        qtbot.wait(2)
    qtbot.waitUntil(lambda: not throttle.waiting)
    passed = time.monotonic() - begin
    assert 2 <= len(calls) <= passed / 0.05 + 1
    assert all(later - earlier > 0.04 for earlier, later in pairwise(calls))


def test_nothing_is_called_while_hidden_and_once_when_shown(qtbot: QtBot) -> None:
    widget = QWidget()
    qtbot.addWidget(widget)
    calls: list[int] = []
    throttle = Throttle(widget, lambda: calls.append(1), 10)
    for _ in range(5):
        throttle.request()
    qtbot.wait(40)
    assert calls == []
    widget.show()
    qtbot.waitUntil(lambda: calls == [1])


def test_a_minimised_window_is_not_painted(qtbot: QtBot) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    inner = QWidget(window)
    calls: list[int] = []
    throttle = Throttle(inner, lambda: calls.append(1), 10)
    window.showMinimized()
    throttle.request()
    qtbot.wait(40)
    assert calls == []
    window.showNormal()
    throttle.request()
    qtbot.waitUntil(lambda: calls == [1])
