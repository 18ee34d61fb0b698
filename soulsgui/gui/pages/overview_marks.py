"""Which moments of a run stand as lines on its curve: checkpoints, and beginnings of attempts. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from soulsgui.gui import text
from soulsgui.gui.i18n import tr
from soulsgui.gui.models.checkpoints import kind_look
from soulsgui.gui.plotting.marks import Mark
from soulsgui.wire.control import AttemptStart, CheckpointInfo
from soulsgui.wire.messages.metrics import AttemptRow, CheckpointRow, Row

_MANUAL = "manual"


@dataclass(frozen=True)
class _Saved:
    """A checkpoint as it stands on a curve."""

    kind: str
    update: int
    episodes: int
    env_steps: int
    time: float


class RunMarks:
    """The checkpoints and attempts of one run, from lists and from live rows.

    A current and a best checkpoint take the place of the one before, as on the disk; those saved by hand
    stay.
    """

    def __init__(self) -> None:
        self._saved: dict[str, _Saved] = {}
        self._attempts: dict[int, AttemptStart] = {}

    def take_list(self, checkpoints: Iterable[CheckpointInfo]) -> None:
        """Take the list of all checkpoints."""
        self._saved = {
            _key(info.kind, info.id): _Saved(
                info.kind, info.updates, info.episodes, info.env_steps, info.created
            )
            for info in checkpoints
        }

    def take_attempts(self, attempts: Iterable[AttemptStart]) -> None:
        """Take the beginnings of attempts."""
        self._attempts |= {start.attempt: start for start in attempts}

    def take_rows(self, rows: Iterable[Row], run: str) -> bool:
        """Take live rows of a run.

        Returns:
            Whether one of them was a moment to be marked.
        """
        found = False
        for row in rows:
            if row.run_id != run:
                continue
            if isinstance(row, CheckpointRow):
                self._saved[_key(row.saved, row.path)] = _Saved(
                    row.saved, row.update, row.episodes, row.env_steps, row.time
                )
                found = True
            elif isinstance(row, AttemptRow):
                self._attempts[row.attempt] = AttemptStart(
                    attempt=row.attempt,
                    update=row.update,
                    env_steps=row.env_steps,
                    episodes=row.episodes,
                    time=row.time,
                )
                found = True
        return found

    @property
    def marks(self) -> list[Mark]:
        """The lines to be drawn, in the order of time."""
        saved = [
            Mark(one.episodes, one.env_steps, one.time, _saved_words(one)) for one in self._saved.values()
        ]
        resumed = [
            Mark(start.episodes, start.env_steps, start.time, _resumed_words(start))
            for start in self._attempts.values()
            if start.attempt > min(self._attempts)
        ]
        return sorted([*saved, *resumed], key=lambda mark: mark.time)


def _key(kind: str, path: str) -> str:
    return path if kind == _MANUAL else kind


def _saved_words(saved: _Saved) -> str:
    kind = tr("Quicksave") if saved.kind == _MANUAL else _kind_words(saved.kind)
    return tr("{kind}, update {update}").format(kind=kind, update=text.count(saved.update))


def _kind_words(kind: str) -> str:
    return tr("{kind} checkpoint").format(kind=kind_look(kind).word)


def _resumed_words(start: AttemptStart) -> str:
    return tr("Attempt {number} from update {update}").format(
        number=start.attempt, update=text.count(start.update)
    )
