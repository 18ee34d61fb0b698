"""The window's asyncio in tests: it runs whenever Qt's event loop does, as under `qtbot.waitUntil`."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from PySide6.QtWidgets import QApplication

from soulsgui.config.paths import Folders
from soulsgui.gui.feed import Feed
from soulsgui.gui.loop import Tasks, close_loop, new_loop
from soulsgui.gui.shell.connection import Connector
from soulsgui.gui.widgets.message_bar import MessageBar
from tests.faults.waiting import LIMIT_S


def close_messages(bar: MessageBar) -> None:
    """Close all messages, whose timers would outlive the test."""
    for row in list(bar.rows):
        row.expire()


def fail_loudly(words: str, error: BaseException) -> None:
    raise AssertionError(words) from error


@contextmanager
def qt_asyncio(qapp: QApplication) -> Iterator[asyncio.AbstractEventLoop]:
    """Let coroutines run while Qt's event loop does; errors nobody caught fail the test at the end."""
    loop = new_loop(qapp)
    # As `run_forever` does; but here it is the test that runs Qt's loop, now and then.
    asyncio._set_running_loop(loop)
    errors: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: errors.append(context))
    try:
        yield loop
    finally:
        asyncio._set_running_loop(None)
        close_loop(loop)
    assert not errors, errors


def until(qapp: QApplication, done: Callable[[], object], what: str, limit_s: float = LIMIT_S) -> None:
    from PySide6.QtCore import QDeadlineTimer, QEventLoop

    deadline = QDeadlineTimer(round(limit_s * 1000))
    while not done():
        assert not deadline.hasExpired(), f"not within {limit_s:g} s: {what}"
        qapp.processEvents(QEventLoop.ProcessEventsFlag.WaitForMoreEvents, 20)


@contextmanager
def connected_feed(qapp: QApplication, folders: Folders) -> Iterator[Feed]:
    """A feed that is connected to the running server of these folders; use it within `qt_asyncio`."""
    tasks = Tasks(fail_loudly)
    feed = Feed()
    connector = Connector(feed, folders, "this computer", tasks, may_start=False)
    connector.open()
    try:
        until(qapp, lambda: feed.connection.live, "the feed is connected")
        yield feed
    finally:
        finish(qapp, tasks)


def finish(qapp: QApplication, tasks: Tasks) -> None:
    """End all coroutines and what they hold open."""
    ending = asyncio.ensure_future(tasks.cancel_all())
    until(qapp, ending.done, "the coroutines end", LIMIT_S)
