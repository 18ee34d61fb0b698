"""The evaluator of a run: when it plays, what it tells, what it writes aside, what it says where it can't."""

import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import redis

from soulsgui.config.layers import combine, defaults_layer
from soulsgui.config.parsing import Layer
from soulsgui.config.paths import RunFolder
from soulsgui.config.schema import Settings
from soulsgui.environments.make import make_env
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.modes.evaluator import EvaluatorNode, best_aside, forget_older
from soulsgui.policies.exploration import with_still
from soulsgui.policies.numpy_mlp import MLPPolicySpec
from soulsgui.training.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from soulsgui.training.publisher import Publisher, TrainingPosition
from soulsgui.wire.connection import Address
from soulsgui.wire.keys import Keys
from soulsgui.wire.manifest import Manifest
from soulsgui.wire.messages.base import Instance
from soulsgui.wire.messages.metrics import ROW_FIELD, UpdateRow, read_row
from soulsgui.wire.messages.node import NodeState, Verdict
from soulsgui.wire.messages.server_config import ServerConfig
from tests.faults.waiting import LIMIT_S, until
from tests.telemetry.helpers import NoDrawing, Stage, episode, node_at_work

SPEC = MLPPolicySpec((4,), 2, 0, (), "tanh", False)
BALANCING, FALLING = 1.0, 0.0
EPISODES = 3


def settings(**changed: Any) -> Settings:
    wanted = {"evaluation.every_updates": 5, "evaluation.episodes": EPISODES}
    changes = {key.replace("__", "."): value for key, value in changed.items()}
    return combine([defaults_layer(), Layer("test", wanted | changes)])


class Run:
    """A run as the evaluator sees it: its folder and what its trainer publishes."""

    def __init__(self, address: Address, connection: redis.Redis, keys: Keys, root: Path) -> None:
        self.folder = RunFolder(root)
        self._address, self._connection, self._keys = address, connection, keys
        env = make_env("CartPole-v1", {}, [])
        spaces = SpacesSpec.from_env(env.observation_space, env.action_space).to_json()
        config = ServerConfig(run_id=root.name, attempt=1, contract="", spaces=spaces, policy=SPEC.to_json())
        self._publisher = Publisher(keys, config)

    def publish(self, update: int, skill: float) -> None:
        lean = skill * np.array([[0, 0, -3, -1], [0, 0, 3, 1]], np.float32)
        weights = {"policy.0.weight": lean, "policy.0.bias": np.zeros(2, np.float32)}
        noisy = weights | {"policy.0.weight": 1 - lean}  # it would fall, whatever its skill
        standing = TrainingPosition(100 + update, update, 10 * update, update)
        self._publisher.prepare(standing, with_still(noisy, weights))
        self._publisher.publish(self._connection, {})

    def claims(self, episode: int) -> None:
        """Let telemetry say that training has reached the goal."""
        told = NodeState(name="telemetry", instance=Instance(), tick=1, run_id=self.folder.run_id)
        claim = told.model_copy(update={"verdict": Verdict(to_confirm=episode)})
        self._connection.set(self._keys.node("telemetry"), claim.to_json())

    def rows(self) -> list[UpdateRow]:
        rows = [read_row(fields[ROW_FIELD]) for _, fields in self._connection.xrange(self._keys.metrics)]
        return [row for row in rows if isinstance(row, UpdateRow)]

    def state(self) -> NodeState | None:
        return NodeState.read(self._connection.get(self._keys.node("evaluator")))

    @contextmanager
    def evaluated(self, seen: float | None = None, **changed: Any) -> Iterator[EvaluatorNode]:
        """An evaluator at work on it, which has seen first weights of this skill."""
        if seen is not None:
            self.publish(0, seen)
        stop = threading.Event()
        evaluator = EvaluatorNode(settings(**changed), self.folder, self._address, stop)
        thread = threading.Thread(target=evaluator.run, name="evaluator")
        thread.start()
        try:
            until(lambda: seen is None or evaluator._seen, "the first weights are seen")
            yield evaluator
        finally:
            stop.set()
            thread.join(LIMIT_S)
            assert not thread.is_alive()


@pytest.fixture
def run(redis_address: Address, redis_client: redis.Redis, keys: Keys, tmp_path: Path) -> Run:
    return Run(redis_address, redis_client, keys, tmp_path / "run")


def test_weights_are_evaluated_told_and_the_best_of_them_written_aside(run: Run) -> None:
    with run.evaluated(FALLING) as evaluator:
        for update, skill, rows in ((5, FALLING, 1), (7, FALLING, 1), (11, BALANCING, 2), (17, FALLING, 3)):
            run.publish(update, skill)
            until(lambda u=update: evaluator._seen.update == u, "they are seen")
            until(lambda n=rows: len(run.rows()) == n, "they are told of")
        told = run.rows()
        assert {row.kind for row in told} == {"evaluation"}
        places = [(row.update, row.previous, row.model_id, row.env_steps, row.episodes) for row in told]
        assert places == [(5, 0, 105, 50, 5), (11, 5, 111, 110, 11), (17, 11, 117, 170, 17)]
        poor, good, again = (row.values for row in told)
        assert poor["evaluation_return"] == poor["evaluation_length"] < 12
        assert good["evaluation_return"] > 100
        # The same weights from the same seeds, so that only what was learned makes a difference.
        assert again | {"evaluation_s": 0} == poor | {"evaluation_s": 0}
        aside = {path.name for path in run.folder.evaluated.iterdir()}
        assert aside == {"105", "111"}
        found = read_checkpoint(run.folder.evaluated / "111")
        assert (found.info.score, found.info.env_steps) == (good["evaluation_return"], 110)
        assert found.info.scored_by == "evaluation"
        assert found.weights["policy.0.weight"][1, 2] == 3
    state = run.state()
    assert (state.model_id, state.best_mean_return) == (117, good["evaluation_return"])
    assert state.farewell == "ended as asked"


def test_a_claimed_goal_is_looked_at_once_for_each_model_by_more_episodes(run: Run) -> None:
    run.publish(1, FALLING)
    with run.evaluated(stop__mean_return=475.0):
        run.claims(12)
        until(lambda: len(run.rows()) == 1, "it is answered")
        run.claims(13)
        until(lambda: len(run.rows()) == 2, "the same weights say the same")
        run.publish(2, BALANCING)
        run.claims(14)
        until(lambda: len(run.rows()) == 3, "others are asked about")
        told = [(row.update, row.confirms) for row in run.rows()]
        assert told == [(1, 12), (1, 13), (2, 14)]
        first, again = (row.values for row in run.rows()[:2])
        assert first == again, "nothing was played anew"
        assert first["evaluation_return"] < 12


def test_what_was_refuted_is_claimed_again_with_newer_weights_only(
    run: Run, redis_address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("soulsgui.telemetry.node.Drawing", NoDrawing)
    goal: dict[str, Any] = {"mean_return": 475.0, "window": 2}
    stage = Stage(redis_address)
    stage.join("client-1")
    run.folder.root.mkdir()

    def trained(model_id: int, sent: int) -> NodeState:
        lucky = episode(500.0, model_id=model_id, run_id=run.folder.run_id)
        stage.play("client-1", lucky, lucky)
        return stage.wait_state(lambda state: state.episodes == sent, "they are counted")

    run.publish(1, FALLING)
    with (
        run.evaluated(stop__mean_return=475.0),
        node_at_work(run.folder, redis_address, stop=goal),
    ):
        trained(101, 2)
        until(run.rows, "the claim is answered")
        stage.wait_state(lambda state: bool(state.verdict and not state.verdict.to_confirm), "it is refuted")
        verdict = trained(101, 4).verdict
        assert (verdict.to_confirm, verdict.reached) == (None, False)
        run.publish(2, BALANCING)
        trained(102, 6)
        stage.wait_state(lambda state: bool(state.verdict and state.verdict.reached), "the goal")
    stage.redis.close()
    assert [row.model_id for row in run.rows()] == [101, 102]


def test_a_claim_of_evaluated_weights_is_played_on_and_those_of_the_end_are_evaluated_once(run: Run) -> None:
    with run.evaluated(FALLING, stop__mean_return=475.0) as evaluator:
        run.publish(5, FALLING)
        until(lambda: len(run.rows()) == 1, "an evaluation is due")
        run.claims(12)
        until(lambda: len(run.rows()) == 2, "the claim is answered")
        few, more = run.rows()
        assert (few.update, more.update, more.confirms) == (5, 5, 12)
        assert few.values["evaluation_return"] != more.values["evaluation_return"]
        aside = run.folder.evaluated / "105"
        assert read_checkpoint(aside).info.score == more.values["evaluation_return"]
        run.publish(7, BALANCING)  # long before an evaluation is due
        until(lambda: evaluator._seen.update == 7, "they are seen")
        assert len(run.rows()) == 2
    *_, last = run.rows()
    assert (len(run.rows()), last.update, last.confirms) == (3, 7, None)
    assert read_checkpoint(run.folder.evaluated / "107").info.score == last.values["evaluation_return"]
    with run.evaluated(evaluation__max_steps=1):
        pass
    assert len(run.rows()) == 4, "another attempt begins with them"


@pytest.mark.allow_warnings
def test_where_the_environment_is_missing_it_says_so_and_the_last_evaluation_is_given_up_after_a_time(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.publish(0, FALLING)
    with run.evaluated(env__id="nowhere:Game-v0"):
        until(lambda: getattr(run.state(), "phase", "") == "frozen", "it says that it can't play")
        state = run.state()
        assert "can't be imported" in state.error
        until(lambda: (run.state() or state).tick > state.tick + 1, "it shows that it lives")
    assert run.rows() == []
    monkeypatch.setattr("soulsgui.modes.evaluator.FINAL_WITHIN_HURRIED_S", 0.0)
    run.publish(2, BALANCING)
    with run.evaluated():
        until(lambda: run.state().phase != "stopping", "it is there")
    assert run.rows() == []
    assert run.state().farewell == "ended as asked"


def _aside(folder: RunFolder, model_id: int, score: float) -> None:
    what = {"run_id": "run", "algorithm": "dqn", "env_id": "CartPole-v1", "spaces": {}, "policy": {}}
    figures = dict.fromkeys(("attempt", "updates", "env_steps", "episodes"), 1)
    info = Manifest(**what, **figures, model_id=model_id, score=score, resumable=False)
    write_checkpoint(folder.evaluated / str(model_id), Checkpoint(info, {}))


def test_the_best_of_before_is_remembered_and_only_the_last_ones_are_kept(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert best_aside(folder) is None
    for model_id, score in ((8, 1.0), (9, 2.5), (10, 3.5)):
        _aside(folder, model_id, score)
    assert best_aside(folder) == 3.5
    forget_older(folder, 10)
    assert {path.name for path in folder.evaluated.iterdir()} == {"9", "10"}


@pytest.mark.allow_warnings
def test_what_did_not_end_is_cut_and_told(run: Run) -> None:
    endless = {"env__kwargs": {"max_episode_steps": -1}, "evaluation__max_steps": 20}
    with run.evaluated(BALANCING, **endless):
        run.publish(5, BALANCING)
        until(run.rows, "they are told of")
        told = run.rows()[0].values
        assert (told["evaluation_length"], told["evaluation_cut"]) == (20, EPISODES)
        until(lambda: "3 of 3 episodes cut" in getattr(run.state(), "detail", ""), "the state says so")


SLOW_GAME = """
import time
from pathlib import Path
import gymnasium

while not Path({go!r}).exists():
    time.sleep(0.01)
gymnasium.register("SlowlyLoaded-v0", "gymnasium.envs.classic_control:CartPoleEnv")
"""


def test_a_slow_environment_is_told_of(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go = tmp_path / "go"
    (tmp_path / "slowly_loaded.py").write_text(SLOW_GAME.format(go=str(go)))
    monkeypatch.syspath_prepend(tmp_path)
    loading = re.compile(r"loading: loading the environment, [1-9]\d* s")

    def detail() -> str:
        return f"{state.phase}: {state.detail}" if (state := run.state()) else ""

    run.publish(0, FALLING)
    try:
        with run.evaluated(env__id="slowly_loaded:SlowlyLoaded-v0"):
            until(lambda: loading.fullmatch(detail()), "it says for how long")
            go.touch()
            until(lambda: detail() == "waiting: ", "it was loaded")
    finally:
        go.touch()
        sys.modules.pop("slowly_loaded", None)
