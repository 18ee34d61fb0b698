"""A process that computes parts of a trainer's gradients: see `training.group`."""

import contextlib
import logging
import os
import pickle
import queue
import sys
import threading
from typing import BinaryIO

import torch

from soulsgui.config.like import as_settings
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.errors import UsageError
from soulsgui.process import leave, setup_logging
from soulsgui.training.agents import MAKERS
from soulsgui.training.group import NOTICE_WITHIN_S, READY, Begin, LearnerLostError, Member

logger = logging.getLogger(__name__)


class Helper(Member):
    """The side of a process that the trainer has started.

    Args:
        begin: What it was told first.
        source: Where the leader tells what to do.
    """

    def __init__(self, begin: Begin, source: BinaryIO) -> None:
        super().__init__(begin.rank, begin.size)
        self._source = source
        self._told: queue.SimpleQueue[object] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True, name="listen").start()

    def broadcast_object(self, message: object = None) -> object:
        """Wait for what the leader tells; None: there is nothing more to do."""
        return self._told.get()

    def _listen(self) -> None:
        """Take what comes until the leader is gone; this process then ends, whatever it waits for."""
        with contextlib.suppress(EOFError, OSError, pickle.UnpicklingError):
            while True:
                self._told.put(pickle.load(self._source))
        self._told.put(None)
        timer = threading.Timer(NOTICE_WITHIN_S, leave, (1,))
        timer.daemon = True
        timer.start()


def run_learner() -> int:
    """Compute parts of gradients until standard input ends; return the exit code."""
    setup_logging()
    source = sys.stdin.buffer
    # Networks print what they like; the answer has standard output to itself.
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0) as output:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        try:
            begin: Begin = pickle.load(source)
        except EOFError:  # the trainer is gone already
            return 0
        except (pickle.UnpicklingError, ValueError, OSError) as error:
            logger.error("this is started by a trainer, which tells it what to do: %s", error)
            return UsageError.exit_code
        torch.set_num_threads(begin.threads)
        if begin.device != "cpu":
            torch.cuda.set_device(begin.device)
        try:
            settings, spaces = as_settings(begin.settings), SpacesSpec.from_json(begin.spaces)
            agent = MAKERS[settings.algorithm](settings, spaces, begin.device)
            output.write(READY)
            helper = Helper(begin, source)
            helper.join(helper.meeting(begin.port), begin.device)
            agent.share(helper).serve()
            if begin.device != "cpu":
                torch.cuda.synchronize()  # the trainer waits for what was begun
        except LearnerLostError as error:
            logger.error("%s", error.message)
            return error.exit_code
        except Exception:  # the trainer's log is where it is looked for; a thread still reads standard input
            logger.exception("a part of a gradient could not be computed")
            return 1
    return 0
