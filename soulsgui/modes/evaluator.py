"""The evaluator of a run: a process of its own that plays greedy episodes with the newest weights.

Every `evaluation.every_updates` updates it takes them, plays, and puts what they gave on the curves; besides
when training episodes claim that the goal is reached, and at the end of the run. Weights that are better than
all before are written aside: the trainer may have let go of them when somebody asks for the best model.
"""

import logging
import math
import os
import shutil
import threading
import time
from functools import partial
from typing import Any, cast

import redis

from soulsgui.config.layers import load_run_settings
from soulsgui.config.paths import RunFolder
from soulsgui.config.schema import Settings
from soulsgui.config.sections.run import LEAST_TO_CONFIRM, settles
from soulsgui.environments.make import longest_episode, make_env
from soulsgui.errors import CheckpointError, EnvironmentCheckError, ProcessFault, SoulsGuiError, UsageError
from soulsgui.modes.evaluate import Asked, Evaluation, Unfinished, check_spaces, evaluate
from soulsgui.policies.exploration import without_noise
from soulsgui.policies.policy import Policy, make_policy
from soulsgui.process import setup_logging, stop_on_signals
from soulsgui.sampling.heartbeat import derived_seed
from soulsgui.sampling.watchdog import Watchdog, limits_of
from soulsgui.system import kill_descendants
from soulsgui.training.checkpoint import Checkpoint, Tensors, UnsavedError, manifest_of, write_checkpoint
from soulsgui.training.evaluations import Schedule
from soulsgui.training.publisher import TrainingPosition
from soulsgui.training.status import Rows, StateReporter
from soulsgui.wire.beats import own_instance
from soulsgui.wire.codec import CodecError, WeightsHeader, unpack_weights
from soulsgui.wire.connection import AWAY, Address, Link, Stopped
from soulsgui.wire.keys import EVALUATOR, TELEMETRY, TRAINER, Keys
from soulsgui.wire.manifest import read_manifest
from soulsgui.wire.messages.metrics import evaluation_row, evaluation_values
from soulsgui.wire.messages.node import NodePhase, NodeState, Verdict
from soulsgui.wire.messages.server_config import OFF_POLICY, ServerConfig, family_of
from soulsgui.wire.published import published_header

logger = logging.getLogger(__name__)

_LOOK_EVERY_S = 0.1
_RETRY_S = 5.0
_TRIES = 3
_REST = 9.0  # without `evaluation.every_updates`: the rest between two evaluations, in times of what one took
FINAL_WITHIN_S, FINAL_WITHIN_HURRIED_S = 10.0, 5.0
"""Time for the evaluation at the end of a run that has reached a goal; of one that was stopped."""
_KEPT = 2
"""Weights written aside that are kept: while the newest is asked for, the one before may still be read."""


class EvaluatorNode:
    """Evaluates the weights of one run."""

    def __init__(self, settings: Settings, run: RunFolder, address: Address, stop: threading.Event) -> None:
        env = settings.env
        self._settings = settings
        self._run = run
        self._stop = stop
        self._keys = Keys(address.prefix)
        self._link = Link(address, stop, EVALUATOR)
        self._make = partial(make_env, env.id, env.kwargs, env.wrappers)
        self._seed = derived_seed(settings.seed, EVALUATOR, 0)
        self._schedule = Schedule(settings.evaluates_every)
        self._rows = Rows()
        self._phase: NodePhase = "loading"
        self._detail = ""
        self._loads_since: float | None = None
        self._error = ""
        self._farewell = ""
        self._tick = 0
        self._previous = (0, 0)
        self._seen: WeightsHeader | None = None
        self._due = False
        self._rests_until = 0.0
        self._deadline = float("-inf")  # for what is played once it is to end
        self._confirmed: int | None = None  # what was asked for last, and is answered
        self._confirming: int | None = None
        self._failures = 0
        self._last: tuple[WeightsHeader, Evaluation] | None = None
        self._best = best_aside(run)
        self._instance = own_instance()
        self._watchdog = Watchdog(limits_of(settings), self._hung)
        self._reporter = StateReporter(address, EVALUATOR, self._state)

    def run(self) -> None:
        """Work until stopped."""
        self._reporter.start()
        self._watchdog.start()
        try:
            while not self._stop.is_set():
                self._turn()
                self._stop.wait(_LOOK_EVERY_S)
            if self._phase != "frozen":
                self._finish()
            self._farewell = "ended as asked"
        except Stopped:
            self._farewell = "ended as asked"
        finally:
            self._phase = "stopping"
            self._watchdog.close()
            self._reporter.close()
            self._link.close()

    def _hung(self, fault: ProcessFault) -> None:
        """End this process, whose main thread is in an environment that does not answer."""
        logger.error("it was at:\n%s", fault.details)
        logger.error("%s", fault.message)  # last: it is told as the cause of the end
        kill_descendants()
        logging.shutdown()
        os._exit(1)

    def _turn(self) -> None:
        """Look for new weights, and evaluate them when that is due."""
        self._tick += 1
        if self._phase == "frozen":
            return
        try:
            self._look(self._link.redis)
            self._rows.flush(self._link.redis, self._keys)
            self._link.back()
        except AWAY as error:
            self._link.lost(error)
        except redis.ResponseError as error:
            self._link.refused(error)
        except Unfinished:
            logger.info("an evaluation was abandoned")
        except ProcessFault:
            raise
        except SoulsGuiError as error:
            self._failures += 1
            if self._failures >= _TRIES:  # telemetry does without
                self._confirmed, self._due = self._confirming, False
            self._trouble(error.message, isinstance(error, EnvironmentCheckError))

    def _finish(self) -> None:
        """Evaluate the weights that the run ends with, as long as there is time."""
        self._confirming = None
        try:
            connection = self._link.redis
            trainer, verdict = self._told_by(connection, TRAINER), self._verdict(connection)
            reached = verdict.reached or (trainer is not None and trainer.stop_reached)
            self._deadline = time.monotonic() + (FINAL_WITHIN_S if reached else FINAL_WITHIN_HURRIED_S)
            header = published_header(connection, self._keys, self._run.run_id)
            if header is not None and header.update and self._found(header) is None:
                self._evaluate(connection)
            self._rows.flush(connection, self._keys)
        except Unfinished:
            logger.warning("no evaluation at the end: it would have taken too long")
        except (*AWAY, redis.ResponseError, SoulsGuiError) as error:
            logger.warning("no evaluation at the end: %s", error)

    def _told_by(self, connection: redis.Redis, name: str) -> NodeState | None:
        data = cast("bytes | None", connection.get(self._keys.node(name)))
        return NodeState.of_run(data, self._run.run_id)

    def _verdict(self, connection: redis.Redis) -> Verdict:
        telemetry = self._told_by(connection, TELEMETRY)
        return (None if telemetry is None else telemetry.verdict) or Verdict()

    def _described(self, connection: redis.Redis) -> ServerConfig | None:
        return ServerConfig.read(cast("bytes | None", connection.get(self._keys.config)))

    def _trouble(self, words: str, for_good: bool) -> None:
        """Say what keeps it from evaluating; without an environment it waits for its end."""
        if words != self._error:
            logger.warning("no evaluation: %s", words)
        self._error = words
        if not for_good:
            self._phase, self._detail = "waiting", "the last evaluation failed"
            self._stop.wait(_RETRY_S)
            return
        # Clients that sample freely can evaluate instead.
        free = family_of(self._settings.algorithm) == OFF_POLICY and self._settings.determinism != "lockstep"
        self._phase = "frozen"
        self._detail = "it can't play here" + (": a client is asked to" if free else "")

    def _look(self, connection: redis.Redis) -> None:
        header = published_header(connection, self._keys, self._run.run_id)
        if header is None:
            return
        if header != self._seen:
            if self._seen is None:
                self._loads_since = time.monotonic()
                try:
                    config = self._described(connection)
                    if config is not None and config.spaces:
                        with self._watchdog.inside("being made"):
                            check_spaces(self._make, config.spaces, self._settings.env.id)
                finally:
                    self._loads_since = None
            self._seen = header
            self._rest()
            self._due |= self._schedule.due(header.attempt, header.update)
        if self._found(header) is not None:
            self._due = False
        claim = self._verdict(connection).to_confirm
        self._confirming = None if claim == self._confirmed else claim
        rested = time.monotonic() >= self._rests_until
        if self._confirming is not None or (self._due and rested):
            self._evaluate(connection)

    def _found(self, header: WeightsHeader) -> Evaluation | None:
        """Return the last evaluation when it was of these weights, None otherwise."""
        return self._last[1] if self._last is not None and header == self._last[0] else None

    def _rest(self) -> None:
        self._phase, self._detail = "waiting", ""
        if self._last is not None:
            found = self._last[1]
            cut = f", {found.cut} of {found.episodes} episodes cut" if found.cut else ""
            self._detail = f"last return {found.mean_return:.1f}{cut}"

    def _evaluate(self, connection: redis.Redis) -> None:
        blob, config = connection.get(self._keys.weights), self._described(connection)
        try:
            header, published = unpack_weights(blob if isinstance(blob, bytes) else b"")
        except CodecError as error:
            raise CheckpointError(f"the newest weights can't be read: {error}") from error
        if config is None or config.run_id != header.run_id or header.run_id != self._run.run_id:
            return
        policy = make_policy(config.policy)
        tensors = without_noise(published)  # what explores is no part of how good it is
        policy.load(tensors)
        self._phase, self._detail = "evaluating", f"model {header.model_id}"
        found = self._play(policy, self._found(header))
        self._error, self._failures, self._due = "", 0, False
        self._last = header, found
        logger.info(
            "update %d, model %d: mean return %.2f ± %.2f, in %.1f s",
            header.update, header.model_id, found.mean_return, found.std_return, found.seconds,
        )  # fmt: skip
        if found.cut:
            logger.warning("model %d: %s", header.model_id, found.cut_words)
        self._keep_if_best(header, tensors, config, found.mean_return)
        values = evaluation_values(found.returns, found.lengths, found.seconds, found.cut)
        last, confirms = self._previous, self._confirming
        self._rows.add(evaluation_row(header.run_id, header, last, values, confirms, time.time()))
        self._previous = header.attempt, header.update
        if self._confirming is not None:
            self._confirmed, self._confirming = self._confirming, None
        if self._settings.evaluation.every_updates is None:
            self._rests_until = time.monotonic() + _REST * found.seconds
        self._rest()

    def _play(self, policy: Policy, found: Evaluation | None) -> Evaluation:
        """Play as many episodes as are wanted, or as it takes to say whether the goal is reached."""
        wanted, stop, env = self._settings.evaluation, self._settings.stop, self._settings.env
        longest = longest_episode(env.id, env.kwargs, env.wrappers, otherwise=wanted.max_steps)

        def play(episodes: int, begun: int) -> Evaluation:
            asked = Asked(episodes, self._seed + begun)
            return evaluate(policy, self._make, asked, self._go_on, longest, self._watchdog)

        goal, confirms = stop.mean_return, self._confirming is not None
        if found is None:
            found = play(max(wanted.episodes, LEAST_TO_CONFIRM if confirms else 1), 0)
        confirms |= stop.judged_by == "evaluation" and goal is not None and found.mean_return >= goal
        while confirms and goal is not None and not settles(found.returns, goal):
            found += play(LEAST_TO_CONFIRM, found.episodes)
        return found

    def _go_on(self) -> bool:
        self._tick += 1
        return not self._stop.is_set() or time.monotonic() < self._deadline

    def _keep_if_best(
        self, header: WeightsHeader, tensors: Tensors, config: ServerConfig, score: float
    ) -> None:
        """Write weights aside when they are better than all before, before their evaluation is published."""
        aside = self._run.evaluated / str(header.model_id)
        again = aside.is_dir()  # they were played on, and what is said of them may be less
        if not math.isfinite(score) or (not again and self._best is not None and score <= self._best):
            return
        info = manifest_of(
            self._settings,
            header.run_id,
            header.attempt,
            TrainingPosition(header.model_id, header.update, header.env_steps, header.episodes),
            config.spaces,
            config.policy,
            kind="best",
            score=score,
            scored_by="evaluation",
            resumable=False,
        )
        try:
            write_checkpoint(aside, Checkpoint(info, tensors))
        except UnsavedError as error:
            # The trainer may still hold them; the evaluation counts all the same.
            logger.warning("%s", error.message)
        else:
            self._best = best_aside(self._run)
            forget_older(self._run, header.model_id)

    def _state(self) -> NodeState:
        """Return the state as of now; called by the reporting thread."""
        since = self._loads_since
        loading = "" if since is None else f"loading the environment, {time.monotonic() - since:.0f} s"
        figures: dict[str, Any] = {}
        if self._last is not None:
            header, found = self._last
            figures = {name: getattr(header, name) for name in ("attempt", "model_id", "env_steps")}
            figures |= {"updates": header.update, "mean_return": found.mean_return}
            figures["timings_s"] = {"evaluation": found.seconds}
        return NodeState(
            name=EVALUATOR,
            instance=self._instance,
            tick=self._tick,
            phase=self._phase,
            detail=loading or self._detail,
            run_id=self._run.run_id,
            best_mean_return=self._best,
            error=self._error,
            farewell=self._farewell,
            **figures,
        )


def best_aside(run: RunFolder) -> float | None:
    """Return the best score among the weights that are written aside; None when there are none."""
    scores = []
    for folder in run.evaluated.glob("[0-9]*"):
        try:
            scores.append(read_manifest(folder).score)
        except CheckpointError as error:
            logger.warning("%s is passed over: %s", folder, error.message)
    return max((score for score in scores if score is not None), default=None)


def forget_older(run: RunFolder, newest: int) -> None:
    """Remove weights written aside but the last ones."""
    kept = sorted((int(path.name) for path in run.evaluated.glob("[0-9]*")), reverse=True)
    for model_id in [one for one in kept if one <= newest][_KEPT:]:
        shutil.rmtree(run.evaluated / str(model_id), ignore_errors=True)


def run_evaluator(run: RunFolder, address: Address) -> int:
    """Evaluate the weights of a run until the process is asked to stop; call it in the main thread."""
    stop = stop_on_signals()
    settings = load_run_settings(run.config)
    if not settings.evaluates_every:
        raise UsageError(
            f"Run {run.run_id} has no evaluations.", "Set how often in its settings: evaluation.every_updates"
        )
    setup_logging(settings.logging.level)
    EvaluatorNode(settings, run, address, stop).run()
    logger.info("ended")
    return 0
