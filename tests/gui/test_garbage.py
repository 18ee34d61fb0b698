import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator

import pytest
from PySide6.QtCore import QObject
from PySide6.QtWidgets import QApplication

from soulsgui.gui.garbage import Collector

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


def test_no_other_thread_collects_and_the_window_does(qapp: QApplication) -> None:
    gc.enable()
    with Collector() as collector:
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


def test_what_there_was_at_first_is_spared_until_the_end() -> None:
    with Collector() as collector:
        collector.spare_the_present()
        assert gc.get_freeze_count() > 0
    assert gc.get_freeze_count() == 0


def test_timers_of_a_closed_loop_do_no_harm_wherever_it_is_freed() -> None:
    done = subprocess.run(
        [sys.executable, "-c", TIMER_OF_A_CLOSED_LOOP], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
