"""When a learner's loss is compiled: beside the learning, where that repays, and only if it is quicker."""

import logging
import os
import shutil
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from soulsgui.rl.compiled_loss import CompiledLoss, first_line
from soulsgui.training.attempt import TrainingRun

logger = logging.getLogger(__name__)

_GAIN = 0.2  # part of an update's time that compiling is expected to save: a quarter for IQN, less for others
_COST_S = 30.0  # what compiling takes of a computer, about
_WORTH = 0.95  # what was compiled is kept if an update takes at most this part of its time


def repays(update_s: float, updates: float) -> bool:
    """Whether compiling saves more time than it takes."""
    return update_s * updates * _GAIN > _COST_S


def missing_compiler(device: str, platform: str = sys.platform) -> str:
    """Return which program is missing to compile, empty when none is."""
    wanted = os.environ.get("CXX") or ("clang++" if platform == "darwin" else "g++")
    return "" if device != "cpu" or shutil.which(wanted) else wanted


class Compiling:
    """Decides, has it compiled by a thread, and keeps what is quicker."""

    def __init__(
        self, run: TrainingRun, part: CompiledLoss[Any] | None, exact: bool, window: int = 50
    ) -> None:
        wish = run.settings.learner.compiles
        self._window = window
        self._part, self._always, self._on_gpu = part, wish == "on", run.device != "cpu"
        self._thread: threading.Thread | None = None
        self._failure = ""
        self._times: list[float] = []
        self._before_s = 0.0
        self._done = part is None or wish == "off" or (exact and not self._always)
        if self._always and part is None:
            logger.info("learner.compile: this learner has nothing to compile, its gradient is written out")
        if self._done or part is None:
            return
        missing = missing_compiler(run.device)
        if missing:
            self._done = True
            logger.log(
                logging.WARNING if self._always else logging.INFO,
                "learner.compile: nothing is compiled, there is no %s here: install a compiler of C++ for it",
                missing,
            )
        elif exact:
            part.use(compiled=True)
            self._done = True
        else:
            part.noted = True

    @contextmanager
    def update(self, expected: float) -> Iterator[None]:
        """Take the time of an update, and do what follows from it."""
        if self._done:
            yield
            return
        began = time.perf_counter()
        yield
        if self._on_gpu:
            torch.cuda.synchronize()
        self.look(time.perf_counter() - began, expected)

    def look(self, seconds: float, expected: float) -> None:
        """Take note of an update's time; begin to compile, or decide, when it is time to."""
        part = self._part
        if self._done or part is None or (self._thread is not None and self._thread.is_alive()):
            return
        if self._thread is not None and not part.compiled:
            if self._failure:
                self._done = True
                logger.warning("learner.compile: not compiled: %s", self._failure)
            else:
                part.use(compiled=True)
            return
        self._times.append(seconds)
        if len(self._times) < self._window:
            return
        median, self._times = statistics.median(self._times), []
        if self._thread is not None:
            self._decide(part, median)
        elif self._always or repays(median, expected):
            self._before_s = median
            self._thread = threading.Thread(target=self._compile, args=(part,), name="compiling", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Decide nothing any more, and wait a little for the thread: torch can't be stopped in between."""
        self._done = True
        if self._thread is not None:
            self._thread.join(timeout=5.0)

    def _compile(self, part: CompiledLoss[Any]) -> None:
        try:
            part.prepare()
        except Exception as error:  # whatever torch and its compilers raise: learning goes on without
            self._failure = first_line(error)

    def _decide(self, part: CompiledLoss[Any], update_s: float) -> None:
        self._done, part.noted = True, False
        keep = self._always or update_s <= _WORTH * self._before_s
        part.use(compiled=keep)
        logger.info(
            "learner.compile: an update took %.2f ms, and %.2f ms compiled: it continues %s",
            1e3 * self._before_s, 1e3 * update_s, "compiled" if keep else "as it was",
        )  # fmt: skip
