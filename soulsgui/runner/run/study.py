"""A sweep as Optuna keeps it: its trials in a file of the data folder, and what is asked of it.

Optuna is an optional package and slow to import: this module is imported where there is a sweep.
"""

import itertools
import logging
import math
import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import optuna
from optuna.samplers import BaseSampler
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy import URL

from soulsgui.config.schema import all_settings
from soulsgui.errors import SoulsGuiError, UsageError
from soulsgui.runner.run.library import unused
from soulsgui.runner.run.search_space import Dimension
from soulsgui.telemetry.store.schema import is_damage, set_aside
from soulsgui.wire.control import SweepStartParams, SweepState, SweepStatus, SweepTrial

optuna.logging.set_verbosity(optuna.logging.WARNING)
logger = logging.getLogger(__name__)

PARTS = 20
"""Into so many parts the steps of a trial are cut: after each it tells its mean return, and may be pruned."""

_LEAST_FOR_IMPORTANCE = 4
_LOCKED_LIMIT_S = 60.0  # so long another process may write into the file
_STARTUP = 5  # Trials that are not pruned by the median of others, and parts of each that never are
_STATES: dict[TrialState, Any] = {
    TrialState.RUNNING: "running",
    TrialState.WAITING: "waiting",
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
}


def _sampler(name: str, seed: int) -> BaseSampler:
    if name == "tpe":  # what others try at the moment counts as bad, so that no two try the same
        return optuna.samplers.TPESampler(seed=seed, constant_liar=True)
    return optuna.samplers.RandomSampler(seed)


def _grid(space: Mapping[str, Dimension], most: int) -> list[dict[str, str]]:
    """Return every combination of choices, no more than so many."""
    endless = [key for key, one in space.items() if not one.choices]
    if endless:
        raise UsageError(
            f"The sampler `grid` needs choices, not ranges: {', '.join(endless)}.",
            f"For instance: --space '{endless[0]}=[A, B]'",
        )
    combined = itertools.product(*(one.choices for one in space.values()))
    return [dict(zip(space, one, strict=True)) for one in itertools.islice(combined, most)]


def _pruner(name: str) -> optuna.pruners.BasePruner:
    if name == "median":
        return optuna.pruners.MedianPruner(_STARTUP, _STARTUP)
    if name == "hyperband":
        return optuna.pruners.HyperbandPruner(1, PARTS)
    if name == "halving":
        return optuna.pruners.SuccessiveHalvingPruner(1)
    return optuna.pruners.NopPruner()


def _draw(trial: optuna.Trial, key: str, one: Dimension) -> None:
    """Draw the value of a trial that is searched; one that was drawn before stays."""
    if one.choices:
        trial.suggest_categorical(key, one.choices)
    elif one.whole:
        trial.suggest_int(key, int(one.low), int(one.high), step=int(one.step or 1), log=one.log)
    else:
        trial.suggest_float(key, one.low, one.high, step=one.step, log=one.log)


def _storage(path: Path) -> RDBStorage:
    """Return the file of all sweeps, which workers use, too; a damaged one is set aside."""
    if path.exists():
        if not (path.is_file() and os.access(path, os.R_OK | os.W_OK)):
            kept = set_aside(path).name
            raise SoulsGuiError(f"{path} can't be used; it is kept as {kept}.", "Start the sweep again.")
        try:
            with closing(sqlite3.connect(path, _LOCKED_LIMIT_S)) as db:
                found = db.execute("PRAGMA quick_check(1)").fetchone()[0]
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            found = str(error)
        if found != "ok":
            kept = set_aside(path).name
            raise SoulsGuiError(
                f"{path} is damaged: {found}; it is kept as {kept}.", "Start the sweep again."
            )
    url = URL.create("sqlite", database=str(path))  # its path may hold what means something in one
    patient = {"connect_args": {"timeout": _LOCKED_LIMIT_S}}
    return RDBStorage(url.render_as_string(hide_password=False), engine_kwargs=patient)


def names(path: Path) -> list[str]:
    """Return the names of all sweeps, the newest first; what could not be written whole is none."""
    found = optuna.get_all_study_summaries(_storage(path)) if path.exists() else []
    whole = [one for one in found if "space" in one.user_attrs]
    return [one.study_name for one in sorted(whole, key=lambda one: -one._study_id)]


class Study:
    """One sweep. Its calls read and write the file: they belong into a thread."""

    def __init__(self, path: Path, name: str) -> None:
        self.name = name
        storage = _storage(path)
        try:
            loaded = optuna.load_study(study_name=name, storage=storage)
        except KeyError as error:
            raise SoulsGuiError(f"{path} does not hold the sweep {name}.", "Start it again.") from error
        self.about: dict[str, Any] = loaded.user_attrs
        self.asked = SweepStartParams.model_validate(self.about["asked"])
        self.config: dict[str, Any] = self.about["config"]
        self.space = {
            key: Dimension(**one | {"choices": tuple(one["choices"])})
            for key, one in self.about["space"].items()
        }
        # By another seed after each start: a sampler would else draw the same again.
        sampler = _sampler(self.asked.sampler, int(self.config["seed"]) + len(loaded.trials))
        how: dict[str, Any] = {"sampler": sampler, "pruner": _pruner(self.asked.pruner)}
        self._study = optuna.load_study(study_name=name, storage=storage, **how)

    @classmethod
    def create(
        cls,
        path: Path,
        stem: str,
        asked: SweepStartParams,
        config: Mapping[str, Any],
        space: Mapping[str, Dimension],
    ) -> "Study":
        """Make the study of a sweep whose name begins so, over the configuration of all its trials."""
        grid = _grid(space, asked.trials) if asked.sampler == "grid" else []
        path.parent.mkdir(parents=True, exist_ok=True)
        storage = _storage(path)
        name = unused(stem, optuna.get_all_study_names(storage))
        study = optuna.create_study(study_name=name, storage=storage, direction="maximize")
        told = {key: value for key, value in asked.overrides.items() if not all_settings()[key].secret}
        study.set_user_attr("asked", asked.model_copy(update={"overrides": told}).model_dump(mode="json"))
        study.set_user_attr("config", dict(config))
        study.set_user_attr("space", {key: asdict(one) for key, one in space.items()})
        for values in grid:
            study.enqueue_trial(values)
        return cls(path, name)

    @property
    def state(self) -> SweepState:
        """Whether it goes on."""
        found: SweepState = self._study.user_attrs.get("state", "running")
        return found

    def end(self, state: SweepState) -> None:
        """Note that it is over; a trial of it that goes on is given up."""
        for trial in self._study.get_trials(states=(TrialState.RUNNING,)):
            self._study.tell(trial.number, state=TrialState.PRUNED)
        self._study.set_user_attr("state", state)

    def trial_of(self, worker: int) -> "Trial | None":
        """Return the trial that a worker makes, counted from 1, None while there is none for it."""
        going = self._going(worker)
        return None if going is None else Trial(self._study, going, self.space)

    def next_trial(self, worker: int = 1) -> "Trial | None":
        """Return the trial of a worker, or a new one for it; None when there are as many as were wanted.

        One process alone may draw trials: the server whose sweep it is.
        """
        going = self._going(worker)
        if going is None:
            waiting = self._study.get_trials(deepcopy=False, states=(TrialState.WAITING,))
            if not waiting and (self.asked.sampler == "grid" or len(self._study.trials) >= self.asked.trials):
                return None
        drawn = going or self._study.ask()
        for key, one in self.space.items():  # also what an earlier runner had no time for
            _draw(drawn, key, one)
        if going is None and worker > 1:  # now that it is whole, it may be taken
            drawn.set_user_attr("worker", worker)
        return Trial(self._study, drawn, self.space)

    def _going(self, worker: int) -> optuna.Trial | None:
        for going in self._study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            if going.user_attrs.get("worker", 1) == worker:
                return optuna.Trial(self._study, going._trial_id)
        return None

    def failed_in_a_row(self) -> int:
        """Return how many of the last trials came to nothing."""
        count = 0
        for trial in reversed(self._study.get_trials(deepcopy=False)):
            if not trial.state.is_finished():
                continue
            if trial.state is not TrialState.FAIL:
                break
            count += 1
        return count

    def status(self) -> SweepStatus:
        """Return the sweep with its trials."""
        trials = self._study.get_trials(deepcopy=False)
        done = [one for one in trials if one.state is TrialState.COMPLETE]
        best = max(done, key=lambda one: -math.inf if one.value is None else one.value, default=None)
        return SweepStatus(
            id=self.name,
            state=self.state,
            env_id=self.config["env"]["id"],
            algorithm=self.config["algorithm"],
            sampler=self.asked.sampler,
            pruner=self.asked.pruner,
            score=self.asked.score,
            preset=self.asked.preset,
            overrides=self.asked.overrides,
            wanted=len(trials) if self.asked.sampler == "grid" else self.asked.trials,
            parallel=self.asked.parallel,
            space={key: one.told for key, one in self.space.items()},
            trials=[self._told(one) for one in trials],
            best=self._told(best) if best is not None else None,
            importance=self._importance() if len(done) >= _LEAST_FOR_IMPORTANCE else {},
        )

    def _told(self, trial: FrozenTrial) -> SweepTrial:
        value = trial.value
        if value is None and trial.intermediate_values:
            value = trial.intermediate_values[max(trial.intermediate_values)]
        return SweepTrial(
            number=trial.number,
            state=_STATES[trial.state],
            score=value,
            values={key: self.space[key].value(drawn) for key, drawn in trial.params.items()},
            run_id=trial.user_attrs.get("run_id", ""),
        )

    def _importance(self) -> dict[str, float]:
        try:
            by = optuna.importance.PedAnovaImportanceEvaluator()
            return dict(optuna.importance.get_param_importances(self._study, evaluator=by))
        except (ValueError, RuntimeError, ZeroDivisionError) as error:  # all trials came to the same
            logger.info("which setting mattered can't be told: %s", error)
            return {}


class Trial:
    """A trial that goes on: a run with other values of what is searched."""

    def __init__(self, study: optuna.Study, trial: optuna.Trial, space: Mapping[str, Dimension]) -> None:
        self.number = trial.number
        self.name = f"trial {trial.number}"
        self._study, self._trial = study, trial
        self.values = {key: space[key].value(drawn) for key, drawn in trial.params.items()}
        self._part = max(study.trials[trial.number].intermediate_values, default=0)
        self.run_id = str(trial.user_attrs.get("run_id", ""))
        self.queued = bool(trial.user_attrs.get("queued"))  # Whether its run was put into the queue

    def note_queued(self) -> None:
        """Note that its run was put into the queue."""
        if not self.queued:
            self._trial.set_user_attr("queued", True)
            self.queued = True

    def note_run(self, run_id: str) -> None:
        """Note which run it has become."""
        if run_id != self.run_id:
            self.run_id = run_id
            self._trial.set_user_attr("run_id", run_id)

    def report(self, part: int, score: float) -> bool:
        """Tell what it has come to after so many `PARTS`; return whether it is to be given up."""
        if part <= self._part:
            return False
        for passed in range(self._part + 1, part + 1):
            self._trial.report(score, passed)
        self._part = part
        return bool(self._trial.should_prune())

    def tell(self, score: float | None, pruned: bool) -> None:
        """Tell how it has ended: given up, come to nothing, or with a score."""
        if pruned:
            self._study.tell(self.number, state=TrialState.PRUNED)
        elif score is None or not math.isfinite(score):
            self._study.tell(self.number, state=TrialState.FAIL)
        else:
            self._study.tell(self.number, score)
