"""The guard against a training that diverges: what is too much, and what is remembered of it over a restart.

A node that diverges ends without saving and without publishing what became of the agent. The runner starts it
again, and it goes on from the last checkpoint as a new attempt. The run's folder tells how often in a row.
"""

import json
import logging
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from soulsgui.config.sections.run import GuardSettings
from soulsgui.errors import DIVERGED, ServiceError
from soulsgui.system import atomic_write

logger = logging.getLogger(__name__)


class DivergenceError(ServiceError):
    """The training has diverged: the agent is of no more use."""

    exit_code = DIVERGED

    def __init__(self, update: int, reason: str) -> None:
        # No remedy: what stands in the last line of the log is told as the cause.
        super().__init__(f"The training has diverged at update {update:,}: {reason}.")
        self.reason = reason


_BOUNDED = {
    "max_loss": r".*loss",
    "max_grad_norm": r".*grad_norm",
    "max_q_value": r"target_mean|td_error|q_.*",
    "max_kl": r"(.*_)?kl",
}
"""Which figures of an update each setting of the guard bounds."""


def find_divergence(values: Mapping[str, float], guard: GuardSettings) -> str:
    """Say which figure of an update has left all bounds, in words; empty where none has. Pure."""
    for figure, value in values.items():
        key = next((key for key, named in _BOUNDED.items() if re.fullmatch(named, figure)), "")
        if key and not math.isfinite(value):
            return f"{figure} is {value}"
        limit: float | None = getattr(guard, key) if key else None
        if limit is not None and abs(value) > limit:
            return f"{figure} is {value:.3g}, beyond guard.{key} {limit:.3g}"
    return ""


@dataclass(frozen=True)
class Diverged:
    """What is remembered of a training that has diverged."""

    update: int
    reason: str
    times: int

    def words(self, going_on_at: int, max_restores: int) -> str:
        """Say what happened and how it goes on."""
        return (
            f"The training diverged at update {self.update:,}: {self.reason}. It continues from update "
            f"{going_on_at:,} (restore {self.times} of {max_restores})"
        )

    def given_up(self) -> str:
        """Say that it does not go on any more."""
        times = "once" if self.times == 1 else f"{self.times} times in a row"
        return f"The training diverged {times}, at last at update {self.update:,}: {self.reason}"


class Divergences:
    """What stands in a run's folder of trainings that have diverged."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.last = self._read()

    def note(self, update: int, reason: str) -> Diverged:
        """Remember one more; one that can't be written down is remembered by nobody else."""
        times = 1 if self.last is None else self.last.times + 1
        self.last = found = Diverged(update, reason, times)
        try:
            atomic_write(self._path, json.dumps(asdict(found)).encode())
        except OSError as error:
            logger.error("that the training has diverged can't be written down: %s", error)
        return found

    def overcome(self, update: int) -> bool:
        """Forget it when a checkpoint was saved behind it; return whether there was something to forget."""
        if self.last is None or update <= self.last.update:
            return False
        self.forget()
        return True

    def forget(self) -> None:
        """Begin the count anew."""
        self.last = None
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            logger.error("that the training had diverged stays written down: %s", error)

    def _read(self) -> Diverged | None:
        try:
            found = json.loads(self._path.read_bytes())
            return Diverged(int(found["update"]), str(found["reason"]), int(found["times"]))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            logger.warning("%s is passed over: %r", self._path, error)
            return None
