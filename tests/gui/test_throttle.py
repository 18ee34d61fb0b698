import pytest
from PySide6.QtCore import QElapsedTimer
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from soulsgui.gui.throttle import Throttle


@pytest.fixture
def widget(qtbot: QtBot) -> QWidget:
    made = QWidget()
    qtbot.addWidget(made)
    return made


def test_many_requests_become_few_calls_and_the_last_one_counts(qtbot: QtBot, widget: QWidget) -> None:
    widget.show()
    calls: list[int] = []
    throttle = Throttle(widget, lambda: calls.append(requests), 50)
    requests = 0
    clock = QElapsedTimer()
    clock.start()
    while requests < 100:
        requests += 1
        throttle.request()
        qtbot.wait(2)
    qtbot.waitUntil(lambda: not throttle.waiting)
    assert calls[-1] == 100
    # Qt's coarse timers may come a twentieth too early.
    assert 1 <= len(calls) <= clock.elapsed() / 45 + 1


def test_nothing_is_called_while_hidden_or_small_and_once_when_shown(qtbot: QtBot, widget: QWidget) -> None:
    calls: list[int] = []
    throttle = Throttle(QWidget(widget), lambda: calls.append(1), 10)
    for show in (widget.hide, widget.showMinimized):
        show()
        for _ in range(5):
            throttle.request()
        qtbot.wait(40)
        assert calls == []
    widget.showNormal()
    throttle.request()
    qtbot.waitUntil(lambda: calls == [1])
