"""The window's event loop: asyncio and Qt meet here alone, through qasync; errors and garbage end here.

Never `.exec()` a dialog inside a coroutine: the task would be lost. `open()` it and await a future.
"""

import asyncio
import gc
import logging
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import wraps
from types import FunctionType, TracebackType
from typing import Any, Self

import qasync
import shiboken6
from PySide6.QtCore import QObject, QTimer
from PySide6.QtWidgets import QApplication

_log = logging.getLogger(__name__)

_LOOK_MS = 1000

OnError = Callable[[str, BaseException], None]
"""Told of an error nobody caught: a sentence for the user, and the error."""


def _tell_errors_whole() -> None:
    """Let classes that are made from now on leave errors as objects in methods of Qt that they write anew.

    Before Python 3.12 an error of C code, as of `int("x")`, is mere words until somebody catches it. Where
    Python called Qt and Qt calls such a method, the binding takes it for an object: that ends the process.
    """

    def whole(method: FunctionType) -> Callable[..., Any]:
        @wraps(method)
        def asked(*args: Any, **kwargs: Any) -> Any:
            try:
                return method(*args, **kwargs)
            except Exception:
                raise

        return asked

    def made(cls: type[QObject], /, **kwargs: Any) -> None:
        super(QObject, cls).__init_subclass__(**kwargs)
        of_qt = [vars(base) for base in cls.__mro__ if base.__module__.startswith("PySide6.")]
        for name, method in list(vars(cls).items()):
            anew = name != "__init__" and any(name in methods for methods in of_qt)
            if anew and isinstance(method, FunctionType):
                setattr(cls, name, whole(method))

    QObject.__init_subclass__ = classmethod(made)  # type: ignore[assignment]


if sys.version_info < (3, 12):
    # With the import: the modules of widgets are imported after this one.
    _tell_errors_whole()


class Tasks:
    """Coroutines that run beside each other; an error in one is told, never lost."""

    def __init__(self, on_error: OnError) -> None:
        self._on_error = on_error
        self._running: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run a coroutine; it is kept until it ends."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("The task %s ended with an error", task.get_name())
            report(error, self._on_error)

    async def cancel_all(self) -> None:
        """End every task and wait until it has."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def __len__(self) -> int:
        return len(self._running)


@contextmanager
def catching(on_error: OnError) -> Iterator[None]:
    """Tell of errors that nobody caught, in slots and threads, instead of ending silently."""
    slots, threads = sys.excepthook, threading.excepthook

    def in_slot(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            slots(kind, error, trace)
            return
        report(error, on_error)

    def in_thread(args: threading.ExceptHookArgs) -> None:
        if args.exc_value is not None and not isinstance(args.exc_value, SystemExit):
            report(args.exc_value, on_error)

    sys.excepthook, threading.excepthook = in_slot, in_thread
    try:
        yield
    finally:
        sys.excepthook, threading.excepthook = slots, threads


def report(error: BaseException, on_error: OnError) -> None:
    """Write an uncaught error to the log with its traceback and tell of it."""
    _log.error("Uncaught error in the window", exc_info=error)
    on_error(f"{type(error).__name__}: {error}", error)


def new_loop(app: QApplication) -> asyncio.AbstractEventLoop:
    """Return an asyncio loop whose coroutines run while Qt's event loop does."""
    loop: asyncio.AbstractEventLoop = qasync.QEventLoop(app)
    return loop


def close_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Close a loop of `new_loop`, with all its timers.

    qasync leaves those that were cancelled to Qt until they are due. Freed by another thread before that,
    they would end the process.
    """
    timer = loop._timer  # type: ignore[attr-defined]
    loop.close()
    shiboken6.delete(timer)


def run(app: QApplication, main: Callable[[], Coroutine[Any, Any, int]], on_error: OnError) -> int:
    """Run the window until `main` returns."""
    loop = new_loop(app)
    asyncio.set_event_loop(loop)

    def in_loop(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception") or RuntimeError(str(context.get("message")))
        report(error, on_error)

    loop.set_exception_handler(in_loop)
    try:
        with catching(on_error):
            return int(loop.run_until_complete(main()))
    finally:
        asyncio.set_event_loop(None)
        close_loop(loop)


class Collector(QObject):
    """While it is entered, Python's garbage is collected by a timer of this thread, and by no other thread.

    Python collects in whichever thread happens to allocate. A Qt object that dies in another thread than its
    own leaves its timers behind: the process ends with a segmentation fault when the next of them fires.

    A generation is due when Python's own count for it has passed its threshold. One rule of Python's is not
    followed, because nobody can ask how it stands: that the oldest generation waits until a quarter of its
    objects is new. Here it is looked at as often as its count says, which is at most once in two minutes;
    what there was when a module was last imported is left out of it: modules and classes stay until the end.
    """

    def __init__(self) -> None:
        super().__init__()
        self._modules = 0
        self._timer = QTimer(self, interval=_LOOK_MS)
        self._timer.timeout.connect(self.look)

    def __enter__(self) -> Self:
        gc.disable()
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.stop()
        gc.unfreeze()
        gc.enable()

    def look(self) -> None:
        """Collect the oldest generation that is due; after an import leave out what there is instead."""
        if len(sys.modules) > self._modules:
            self._modules = len(sys.modules)
            gc.freeze()
            return
        counts = zip(gc.get_count(), gc.get_threshold(), strict=True)
        due = [generation for generation, (count, threshold) in enumerate(counts) if count > threshold]
        if due:
            gc.collect(due[-1])
