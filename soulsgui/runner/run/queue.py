"""The runs that are to begin one after another, kept in a file over restarts of the runner."""

import logging
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from soulsgui.config.layers import combine, with_new_names
from soulsgui.config.parsing import layer_of_tree
from soulsgui.config.schema import Settings, public_tree
from soulsgui.errors import UsageError
from soulsgui.runner.refusal import Refused
from soulsgui.runner.run.library import run_stem, unused
from soulsgui.runner.status_text import size_words
from soulsgui.system import atomic_write, read_small
from soulsgui.wire.control import ErrorCode, QueuedRun, RunStartParams
from soulsgui.wire.messages.base import Message

if TYPE_CHECKING:
    from soulsgui.runner.run.start import Beginning

logger = logging.getLogger(__name__)

_MOST = 200
_MOST_BYTES = 16 * 2**20  # of its file; it is left half empty, since a run that begins is noted in it
_LARGEST_SEED = 2**31 - 1
ALL = "all"


class QueueEntry(QueuedRun):
    """A run of the queue, with what it begins with."""

    config: dict[str, Any]  # all settings as they were when it was asked for, without secrets
    note: str = ""
    checkpoint: str = ""  # path of what it begins from; empty for nothing

    @property
    def settings(self) -> Settings:
        """The configuration it begins with; a ConfigError names what this version does not take any more."""
        return combine([layer_of_tree(with_new_names(self.config), f"queued run {self.number}")])


def entry_of(number: int, settings: Settings, **about: str) -> QueueEntry:
    """Return a run that begins with these settings; `about` are its other fields."""
    return QueueEntry(
        number=number,
        env_id=settings.env.id,
        algorithm=settings.algorithm,
        agent=settings.agent,
        seed=settings.seed,
        config=public_tree(settings),
        **about,
    )


class _File(Message):
    last: int = 0  # the greatest number that was ever given
    entries: list[QueueEntry] = Field(default_factory=list)


class RunQueue:
    """The queue, in order. A run that has begun stays until it is over: after a crash it is gone on with.

    `loss` says in words that its file could not be read; empty when it could.
    """

    def __init__(self, path: Path) -> None:
        self.loss = ""
        self._path = path
        self._now = self._read()

    def _read(self) -> _File:
        try:
            found = _File.read(read_small(self._path, _MOST_BYTES))
        except FileNotFoundError:
            return _File()
        except OSError as error:
            found, self.loss = None, str(error)
        if found is not None:
            return found
        aside = self._path.with_name(f"{self._path.stem}.damaged-{int(time.time())}.json")
        try:
            self._path.replace(aside)  # somebody may still read in it what was to begin
            kept = f"it is kept as {aside.name}"
        except OSError as error:
            kept = f"it could not be set aside ({error})"
        self.loss = f"{self.loss or f'{self._path} is damaged'}; {kept}."
        return _File()

    def _write(self, now: _File) -> None:
        atomic_write(self._path, now.to_json().encode())
        self._now = now

    @property
    def next_number(self) -> int:
        """What the next run is called that is put into the queue."""
        return self._now.last + 1

    def of_sweep(self, sweep: str) -> QueueEntry | None:
        """Return the run of the trial of a sweep that waits or goes on, None when none does."""
        return next((one for one in self._now.entries if one.sweep == sweep), None)

    def waiting(self, active: str = "") -> list[QueueEntry]:
        """Return those that are to begin or to go on, in order; `active` is the id of the run that does."""
        begun = [one for one in self._now.entries if one.run_id and one.run_id != active]
        return begun + [one for one in self._now.entries if not one.run_id]

    def entries_for(self, params: RunStartParams, begins: "Beginning", wall_time: float) -> list[QueueEntry]:
        """Return the runs that a command asks for, one for each seed; none of them is in the queue yet."""
        settings = begins.settings
        last = settings.seed + params.seeds - 1
        if last > _LARGEST_SEED:
            raise UsageError(
                f"seed: {params.seeds} seeds from {settings.seed} on exceed {_LARGEST_SEED}.",
                "Start with a smaller one: --set seed=1",
            )
        several = params.seeds > 1
        experiment = self._new_experiment(params.name, wall_time) if several else ""
        return [
            entry_of(
                self.next_number + seed - settings.seed,
                settings.model_copy(update={"seed": seed}),
                name=f"{params.name} seed {seed}".strip() if several else params.name,
                note=params.note,
                checkpoint=str(begins.checkpoint or ""),
                experiment=experiment,
                config_summary=begins.summary,
            )
            for seed in range(settings.seed, last + 1)
        ]

    def _new_experiment(self, name: str, wall_time: float) -> str:
        # Those begun within the same second are all still here.
        known = {one.experiment for one in self._now.entries}
        return unused(run_stem(name, wall_time), known)

    def add(self, entries: Iterable[QueueEntry]) -> None:
        """Put runs behind the others."""
        together = [*self._now.entries, *entries]
        if len(together) > _MOST:
            raise Refused(
                ErrorCode.NOT_NOW,
                f"The queue holds {_MOST} runs at most.",
                "Wait until some have ended, or remove some: soulsgui run queue remove NUMBER",
            )
        now = _File(last=together[-1].number, entries=together)
        if (size := len(now.to_json().encode())) > _MOST_BYTES // 2:  # the next runner could not read it
            raise Refused(
                ErrorCode.NOT_NOW,
                f"The queue would take {size_words(size)}; it takes {size_words(_MOST_BYTES // 2)} at most.",
                "Use shorter notes, or fewer seeds, or wait until some of its runs have ended.",
            )
        self._write(now)

    def move(self, number: int, place: int, active: str = "") -> None:
        """Let a run that waits begin as the `place`-th, counted from 1, of those that do."""
        moved = self._waiting(number, active)
        others = [one for one in self.waiting() if one is not moved]
        begun = sum(bool(one.run_id) for one in others)
        others.insert(begun + place - 1, moved)
        self._write(self._now.model_copy(update={"entries": others}))

    def remove(self, which: str, active: str = "") -> list[QueueEntry]:
        """Take runs that wait out: one by its number, those of an experiment, or all; return them."""
        if which.isdecimal():
            gone = [self._waiting(int(which), active)]
        else:
            gone = [one for one in self.waiting(active) if which in (ALL, one.experiment)]
        if not gone and which != ALL:
            raise Refused(
                ErrorCode.NOT_FOUND,
                f"No run of an experiment “{which}” is in the queue.",
                "See the queue: soulsgui run queue list",
            )
        self._keep(one for one in self._now.entries if one not in gone)
        return gone

    def _waiting(self, number: int, active: str = "") -> QueueEntry:
        found = next((one for one in self.waiting(active) if one.number == number), None)
        if found is None:
            raise Refused(
                ErrorCode.NOT_FOUND,
                f"There is no run {number} in the queue.",
                "See the queue: soulsgui run queue list. To stop the active run: soulsgui run stop",
            )
        return found

    def began(self, number: int, run_id: str) -> None:
        """Note which run an entry has become; empty for none, it waits again."""
        self._keep(
            one.model_copy(update={"run_id": run_id}) if one.number == number else one
            for one in self._now.entries
        )

    def over(self, run_id: str, with_experiment: bool = False) -> None:
        """Take a run that is over out, if it is here; with the rest of its experiment, if none can begin."""
        gone = [one for one in self._now.entries if run_id and one.run_id == run_id]
        experiments = {one.experiment for one in gone if with_experiment} - {""}
        if gone:
            self._keep(
                one for one in self._now.entries if one not in gone and one.experiment not in experiments
            )

    def put_back(self, run_id: str) -> None:
        """Let the entry of a run of which nothing is left wait again, if it is here."""
        for one in self._now.entries:
            if run_id and one.run_id == run_id:
                self.began(one.number, "")

    def _keep(self, entries: Iterable[QueueEntry]) -> None:
        kept = self._now.model_copy(update={"entries": list(entries)})
        try:
            self._write(kept)
        except OSError as error:
            # What runs now is right all the same: only the runner after a crash would read it.
            logger.error("the queue of runs can't be written: %s", error)
            self._now = kept
