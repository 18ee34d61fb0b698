import asyncio
import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from unittest.mock import Mock

import pytest
from PySide6.QtCore import QObject, QTimer
from PySide6.QtWidgets import QApplication

from soulsgui.gui.loop import Collector, Tasks, catching, run
from tests.faults.waiting import LIMIT_S


@pytest.fixture
def told() -> Mock:
    """What is called with the words and the error."""
    return Mock()


def words(told: Mock) -> list[str]:
    return [words for words, _ in (call.args for call in told.call_args_list)]


def test_timers_and_coroutines_run_and_give_the_exit_code(qapp: QApplication, told: Mock) -> None:
    async def life() -> int:
        fired = asyncio.get_running_loop().create_future()
        QTimer.singleShot(5, lambda: fired.set_result(7))
        return int(await asyncio.wait_for(fired, LIMIT_S))

    assert run(qapp, life, told) == 7


@pytest.mark.allow_warnings
def test_an_error_in_a_task_is_told(qapp: QApplication, told: Mock, caplog: pytest.LogCaptureFixture) -> None:
    done: list[str] = []

    async def breaks() -> None:
        raise ValueError("broken row")

    async def goes_on() -> None:
        await asyncio.sleep(0.01)
        done.append("well")

    async def life() -> int:
        tasks = Tasks(told)
        tasks.spawn(breaks(), "feed")
        await tasks.spawn(goes_on(), "clock")
        return len(tasks)

    assert run(qapp, life, told) == 0
    assert done == ["well"]
    assert words(told) == ["ValueError: broken row"]
    assert "The task feed ended with an error" in caplog.text


def test_tasks_can_all_be_ended(qapp: QApplication, told: Mock) -> None:
    ended: list[str] = []

    async def waits(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)

    async def life() -> int:
        tasks = Tasks(told)
        for name in ("a", "b"):
            tasks.spawn(waits(name), name)
        await asyncio.sleep(0)
        await tasks.cancel_all()
        return len(tasks)

    assert run(qapp, life, told) == 0
    assert sorted(ended) == ["a", "b"]
    assert words(told) == []


def _break() -> None:
    raise RuntimeError("broken")


@pytest.mark.allow_warnings
def test_an_error_in_a_callback_or_a_thread_is_told_and_logged_and_the_hooks_are_given_back(
    qapp: QApplication, told: Mock, caplog: pytest.LogCaptureFixture
) -> None:
    async def life() -> int:
        asyncio.get_running_loop().call_soon(_break)
        await asyncio.sleep(0.02)
        return 0

    run(qapp, life, told)
    assert words(told) == ["RuntimeError: broken"]
    before = sys.excepthook, threading.excepthook
    caplog.clear()
    with catching(told):
        assert sys.excepthook is not before[0]
        thread = threading.Thread(target=_break)
        thread.start()
        thread.join()
    assert words(told) == 2 * ["RuntimeError: broken"]
    assert "in _break" in caplog.text
    assert (sys.excepthook, threading.excepthook) == before


# A process of its own: what it is about ends the process.
TIMER_OF_A_CLOSED_LOOP = """
import gc, threading, time
from PySide6.QtWidgets import QApplication
from soulsgui.gui.loop import close_loop, new_loop

app = QApplication([])
loop = new_loop(app)
loop.call_later(0.2, print).cancel()
loop.itself = loop
close_loop(loop)
del loop
thread = threading.Thread(target=gc.collect)
thread.start()
thread.join()
end = time.monotonic() + 0.4
while time.monotonic() < end:
    app.processEvents()
"""

ERROR_OF_C_CODE = """
from soulsgui.gui import app
from PySide6.QtCore import QAbstractTableModel, Qt
from PySide6.QtWidgets import QApplication, QTableView
from soulsgui.gui.widgets import labels

class Model(QAbstractTableModel):
    rowCount = columnCount = lambda *_: 1
    data = lambda *_: None

    def sort(self, column, order):
        return min(None, column)

qapp = QApplication([])
label, table, model = labels.IconLabel(16), QTableView(), Model()
label.show_icon("power", "idle")
labels.colours_of = lambda _: int("x")
table.setModel(model)
try:
    {}
except (TypeError, ValueError):
    print("told")
"""


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    was_on = gc.isenabled()
    yield
    (gc.enable if was_on else gc.disable)()


def in_a_cycle() -> "weakref.ref[QObject]":
    made = QObject()
    made.itself = made
    return weakref.ref(made)


def allocate_much() -> None:
    for _ in range(20):
        [[] for _ in range(10_000)]


def test_no_other_thread_collects_and_the_window_only_what_is_new(qapp: QApplication) -> None:
    gc.enable()
    with Collector() as collector:
        collector.look()
        assert gc.get_freeze_count() > 0, "the modules there are"
        made = in_a_cycle()
        thread = threading.Thread(target=allocate_much)
        thread.start()
        thread.join()
        assert made() is not None
        held = [[] for _ in range(2 * gc.get_threshold()[0])]
        collector.look()
        assert made() is None
        assert held
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


def test_timers_of_a_closed_loop_do_no_harm_wherever_it_is_freed() -> None:
    done = subprocess.run(
        [sys.executable, "-c", TIMER_OF_A_CLOSED_LOOP], capture_output=True, text=True, timeout=LIMIT_S
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("calls_qt", ["label.grab()", "table.sortByColumn(0, Qt.SortOrder.AscendingOrder)"])
def test_an_error_of_c_code_where_python_called_qt_does_not_end_the_process(calls_qt: str) -> None:
    words = (sys.executable, "-c", ERROR_OF_C_CODE.format(calls_qt))
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S)
    assert (done.returncode, done.stdout) == (0, "told\n"), done.stderr
