"""What every training node does, whatever it learns with: whole, on a real server."""

import json
import math
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import redis

from soulsgui.config.layers import combine, load_run_settings
from soulsgui.config.parsing import Layer
from soulsgui.config.paths import RunFolder
from soulsgui.errors import (
    CheckpointError,
    CheckpointMisfitError,
    EnvironmentCheckError,
    ServiceError,
    UsageError,
)
from soulsgui.experience.segments import Segments
from soulsgui.policies.exploration import START
from soulsgui.rl.buffers.replay import NStepBatch
from soulsgui.training.checkpoint import newest_resumable, read_checkpoint, write_checkpoint
from soulsgui.training.learners import asynchronous
from soulsgui.training.nodes import NODES, PPOTrainingNode
from soulsgui.wire.connection import Address
from soulsgui.wire.messages.metrics import AttemptRow, CheckpointRow
from tests.faults.waiting import until
from tests.rl.support import random_batch, transitions
from tests.servers import delete_prefix
from tests.training.nodes import (
    ALGORITHMS,
    BATCH,
    FIRST,
    STEPS,
    RunningNode,
    RunNode,
    Training,
    faulty_node,
    join,
    next_round,
    settings_of,
    small_settings,
)
from tests.training.players import played_with

every = pytest.mark.parametrize("algorithm", ALGORITHMS)
without_rounds = pytest.mark.parametrize("algorithm", ["dqn", "sac", "vtrace"])
each_learner = pytest.mark.parametrize("algorithm", ["ppo", "dqn", "vtrace"])


def _steps(algorithm: str, updates: int) -> int:
    return FIRST[algorithm] + (updates - 1) * (FIRST["ppo"] if algorithm == "ppo" else BATCH)


@every
def test_it_takes_in_learns_publishes_and_tells(run_node: RunNode, tmp_path: Path, algorithm: str) -> None:
    settings = settings_of(algorithm)
    with run_node(settings) as node:
        words = "0 of 1 clients are ready" if algorithm == "ppo" else "no clients"
        node.wait_for(lambda now: (now.phase, now.detail) == ("waiting", words), "it waits")
        began = time.monotonic()
        node.quiet(10)
        assert time.monotonic() - began > 0.25, "without clients it does not spin"
        training = Training(node)
        player = training.player
        first, before = player.weights()
        grant = player.granted()
        assert (grant.status, grant.credit_steps is None) == ("accepted", algorithm == "ppo")
        for count in range(1, 4):
            last = player.weights()[0]
            state = training.update()
            header, tensors = player.weights()
            assert (header.update, header.model_id) == (count, last.model_id + 1)
        assert (state.updates, state.env_steps) == (3, _steps(algorithm, 3))
        # One of two environments ended its episode in each chunk, the other one was cut off.
        assert (state.episodes, state.rejected) == (3 * 2, {})
        assert header.digest != first.digest
        assert any(not np.array_equal(tensors[name], before[name]) for name in tensors)
        for name, array in node.node.learner.weights().items():
            np.testing.assert_array_equal(tensors[name], array, err_msg=name)
        assert load_run_settings(tmp_path / "config.json") == settings
        config: Any = player.config()
        assert (config.run_id, config.settings["env.id"]) == (tmp_path.name, settings.env.id)
        node.quiet()
        assert player.weights()[0] == header, "nothing has changed since"
    rows = node.update_rows()
    assert isinstance(node.rows()[0], AttemptRow)
    node.connection.close()
    assert [row.previous for row in rows] == [0, *[row.update for row in rows[:-1]]]
    assert (rows[-1].update, rows[-1].env_steps, rows[-1].values["clients"]) == (3, _steps(algorithm, 3), 1)
    assert {"learner_wait_s", "ingest_wait_s", "env_steps_per_s"} <= set(rows[-1].values)


@every
def test_bad_segments_never_reach_the_learner(run_node: RunNode, algorithm: str) -> None:
    part = STEPS // 4
    with run_node(settings_of(algorithm)) as node:
        player = join(node)
        if algorithm == "ppo":
            next_round(player)
        made = player.play(part)
        log_prob, action = made.log_prob.copy(), made.action.copy()
        log_prob[0] = np.nan
        action[:] = 1e16 if algorithm == "sac" else 9
        player.deliver(part, digest=np.array([1, 1], np.uint64))
        player.deliver(part, log_prob=log_prob)  # in one of two environments
        player.deliver(part, action=action)
        player.deliver(part)
        waiting = getattr(node.node.learner, "waiting", SimpleNamespace(steps=0))
        node.wait_for(lambda now: now.env_steps + waiting.steps == 3 * part, "the good ones")
        state = node.wait_for(lambda now: len(now.rejected) == 3, "they are counted")
        assert state.rejected == {"lineage": 2, "not_finite": 1, "out_of_bounds": 2}
        until(lambda: node.told().rejected_by_client == {"c": state.rejected}, "it is told whose they were")


@without_rounds
def test_weights_of_a_while_ago_are_good_enough_older_ones_are_not(run_node: RunNode, algorithm: str) -> None:
    settings = settings_of(algorithm, **{f"{algorithm}__max_model_delay": 2, "publish__min_seconds": 1000.0})
    with run_node(settings) as node:
        training = Training(node)
        player = training.player
        old, _ = player.weights()
        made_then = played_with(old)

        def publish() -> None:
            before, count = player.weights()[0], node.node.agent.updates + 1
            training.deliver()
            node.wait_for_updates(count)
            assert player.weights()[0] == before, "no more is published than is set"
            node.node.learner.published_at = -math.inf
            until(lambda: player.weights()[0].model_id == before.model_id + 1, "newer weights")

        publish()
        publish()
        training.deliver(**made_then)
        steps = node.wait_for_updates(3).env_steps
        assert steps == _steps(algorithm, 3)
        node.node.training.model_id += 1  # as if newer weights had been published
        player.deliver(1, **made_then)
        state = node.wait_for(lambda now: now.rejected, "they are counted")
        assert (state.rejected, state.env_steps) == ({"late": 2}, steps)


@pytest.mark.parametrize(("algorithm", "changed"), [("dqn", 20.0), ("vtrace", 2 * BATCH)])
def test_while_the_learner_has_to_catch_up_nothing_is_read(
    run_node: RunNode, monkeypatch: pytest.MonkeyPatch, algorithm: str, changed: float
) -> None:
    key = "dqn__replay_ratio" if algorithm == "dqn" else "vtrace__buffer_size"
    with run_node(settings_of(algorithm, **{key: changed})) as node:
        trainer, player = node.node, join(node)
        held, rooms = threading.Semaphore(0), []
        take, update = trainer.attempt.intake.take, trainer.agent.update

        def look(*args: Any) -> None:
            rooms.append(trainer.learner.room)
            take(*args)

        def wait_and_update(*args: Any, **more: Any) -> None:
            held.acquire()
            update(*args, **more)

        monkeypatch.setattr(trainer.attempt.intake, "take", look)
        monkeypatch.setattr(trainer.agent, "update", wait_and_update)
        for _ in range(10):
            player.deliver(8)
        until(lambda: trainer.learner.due, "learning begins")
        assert node.connection.xlen(node.keys.chunks("c")) > 0
        held.release(10_000)
        learner = trainer.learner
        node.wait_for(lambda state: state.env_steps == 160, "all is taken in, or learned from")
        if algorithm == "dqn":
            node.wait_for_updates(int((20 * learner.band.inserted + learner.band.slack) // BATCH))
            assert learner.band.value == pytest.approx(20, rel=0.1)
        else:
            assert trainer.attempt.intake.sessions.by_client["c"].granted_steps <= 160 + 2 * BATCH
        assert min(room for room in rooms if room is not None) >= 0
        assert node.connection.xlen(node.keys.chunks("c")) == 0


@every
def test_the_goal_in_steps_ends_the_taking_in(run_node: RunNode, algorithm: str) -> None:
    goal = _steps(algorithm, 2)
    with run_node(settings_of(algorithm, stop__env_steps=goal)) as node:
        training = Training(node)
        training.update(2 if algorithm in ("ppo", "vtrace") else 1)
        if algorithm in ("dqn", "sac"):
            training.deliver()
        state = node.wait_for(lambda now: now.stop_reached, "the goal is told")
        assert (state.env_steps, state.phase, state.detail) == (goal, "waiting", "its steps are made")
        updates = state.updates
        # What was taken in is trained on, and no more than that; the last weights go out.
        assert updates == (2 if algorithm in ("ppo", "vtrace") else 1)
        until(lambda: training.player.weights()[0].update == updates, "the last weights are published")
        training.player.deliver(4)
        node.quiet()
        assert node.node.state().env_steps == goal
        assert node.node.agent.updates == updates
        grant = training.player.granted()
        assert grant.round is None or grant.round.round_id <= training.last


@every
def test_commands_are_carried_out_and_answered(run_node: RunNode, tmp_path: Path, algorithm: str) -> None:
    with run_node(settings_of(algorithm)) as node:
        training = Training(node)
        training.update()
        earlier = training.player.weights()[0]
        training.update()
        manual = node.answer(node.ask("save", kind="manual", note="hand"))
        assert read_checkpoint(tmp_path / manual.result["path"]).info.updates == 2
        assert node.answer(node.ask("save", kind="best", model_id=earlier.model_id, score=12.0)).ok
        info = read_checkpoint(tmp_path / "best_model").info
        # The weights asked for are those after one update, and so is what is told of them.
        place = info.model_id, info.updates, info.env_steps
        assert place == (earlier.model_id, 1, _steps(algorithm, 1))
        assert (info.score, info.scored_by, info.algorithm) == (12.0, "training", algorithm)
        gone = node.answer(node.ask("save", kind="best", model_id=earlier.model_id + 50))
        assert not gone.ok
        assert "gone" in gone.error
        written_aside = node.node.snapshot("best", 3.0)
        write_checkpoint(node.run.evaluated / str(earlier.model_id + 50), written_aside)
        kept = node.ask("save", kind="best", model_id=earlier.model_id + 50, score=7.5)
        assert node.answer(kept).ok
        found = read_checkpoint(tmp_path / "best_model")
        assert (found.info.updates, found.info.score) == (2, 7.5)
        assert set(found.weights) == set(written_aside.weights)
        stop = node.ask("stop")
        node.join()
        assert node.answer(stop).ok
        state = node.told()
        assert (state.farewell, state.phase) == ("ended as asked", "stopping")
        assert read_checkpoint(tmp_path / "checkpoint").info.updates == 2
        saved = {row.saved for row in node.rows() if isinstance(row, CheckpointRow)}
        assert saved == {"manual", "best", "current"}


@every
def test_a_paused_trainer_keeps_what_it_has_and_goes_on_with_it(run_node: RunNode, algorithm: str) -> None:
    with run_node(settings_of(algorithm)) as node:
        training = Training(node)
        training.update()
        if algorithm == "ppo":
            next_round(training.player, training.last)
        assert node.answer(node.ask("pause")).ok
        state = node.wait_for(lambda state: state.phase == "paused", "the pause")
        assert state.detail == "by request"
        until(lambda: training.player.granted().resting, "who plays is told")
        granted = training.player.grant()
        training.deliver()
        # It turns, saves when asked to, and takes nothing in.
        assert node.answer(node.ask("save", kind="manual")).ok
        node.quiet(3)
        now = node.node.state()
        assert (now.updates, now.env_steps, now.phase) == (1, state.env_steps, "paused")
        assert now.learner_waits is not None
        assert training.player.grant() == granted
        assert node.answer(node.ask("continue")).ok
        node.wait_for_updates(2)
        until(lambda: not training.player.granted().resting, "it is told to go on")
        training.update()
        if algorithm == "ppo":
            next_round(training.player, training.last)
        assert node.answer(node.ask("wait", seconds=600, why="the disk is nearly full")).ok
        state = node.wait_for(lambda state: state.phase == "paused", "the wait")
        assert state.detail == "the disk is nearly full"
        until(lambda: training.player.granted().resting, "who plays is told")
        assert node.answer(node.ask("wait", seconds=0, why="")).ok
        until(lambda: not training.player.granted().resting, "it goes on by itself")
        assert node.answer(node.ask("rest")).ok
        training.deliver()
        assert node.answer(node.ask("save", kind="manual")).ok
        node.quiet(3)
    assert node.node.agent.updates == 3


@every
def test_checkpoints_are_regular(run_node: RunNode, monkeypatch: pytest.MonkeyPatch, algorithm: str) -> None:
    monkeypatch.setattr(asynchronous, "_CHECKPOINT_EVERY_S", 0.0)
    settings = settings_of(algorithm, checkpoint__every_updates=2)
    with run_node(settings) as node:
        training, learner = Training(node), node.node.learner
        training.update()
        node.quiet()
        assert not node.run.checkpoint.exists()
        if algorithm != "ppo":
            learner.next_save = math.inf
        training.update()
        if algorithm != "ppo":
            node.quiet()
            assert not node.run.checkpoint.exists(), "they come not too often"
            learner.next_save = 0.0
        state = node.wait_for(lambda now: now.checkpoint_env_steps is not None, "the checkpoint")
        assert state.checkpoint_env_steps == _steps(algorithm, 2)
        assert algorithm == "ppo" or learner.next_save > 0
    assert read_checkpoint(node.run.checkpoint).info.updates == 2


@every
def test_a_run_goes_on_from_its_checkpoint_with_newer_ids(run_node: RunNode, algorithm: str) -> None:
    with run_node(settings_of(algorithm)) as node:
        training = Training(node)
        training.update(3)
        player = training.player
        published = player.weights()[0]
        if algorithm == "ppo":
            training.last = next_round(player, training.last).round_id
    tensors, meta = node.node.agent.state()
    steps = _steps(algorithm, 3)
    with run_node(settings_of(algorithm), resume=True) as node:
        until(lambda: player.weights()[0].attempt == 2, "the next attempt")
        header = player.weights()[0]
        assert (header.update, header.digest) == (3, published.digest)  # the same agent, to the bit
        assert header.model_id > published.model_id
        resumed, resumed_meta = node.node.agent.state()
        assert resumed_meta == meta
        for name, array in tensors.items():
            np.testing.assert_array_equal(array, resumed[name], err_msg=name)
        assert node.node.training.env_steps == steps
        Training(node, player, training.last).update()  # in its session: it needs no new hello
        assert node.node.state().env_steps == steps + FIRST[algorithm]  # a memory is filled anew
        attempts = [row for row in node.rows() if isinstance(row, AttemptRow)]
        assert [(row.attempt, row.update, row.env_steps) for row in attempts] == [(1, 0, 0), (2, 3, steps)]


def _batch(by: Any, number: int) -> Segments | NStepBatch:
    """The same batch for the same number, `by` the agent of a node that never learns."""
    if by.training.settings.algorithm in ("ppo", "vtrace"):
        return random_batch(by.agent, number, (16,) * 4)
    return transitions(BATCH, number, by.training.spaces)


@every
def test_updates_after_a_resume_are_the_same(redis_address: Address, tmp_path: Path, algorithm: str) -> None:
    changed = {"dqn__target_interval": 7} if algorithm == "dqn" else {}

    def made(name: str, seed: int) -> Any:
        settings = settings_of(algorithm, seed=seed, **changed)
        return NODES[algorithm](settings, RunFolder(tmp_path / name), redis_address)

    def learn(node: Any, numbers: range) -> list[Any]:
        moment = (START,) if algorithm in ("ppo", "vtrace") else ()
        told = [node.agent.update(_batch(by, number), *moment) for number in numbers]
        return told if algorithm == "ppo" else [node.agent.figures()]

    whole, by = made("a", 0), made("by", 0)
    learn(whole, range(10))
    whole.checkpoint(tmp_path / "c")
    info = read_checkpoint(tmp_path / "c").info
    assert (info.algorithm, info.updates) == (algorithm, 10)
    assert whole.snapshot("manual", 2.0).info.scored_by == "training"
    resumed = made("b", 99)
    resumed.load_checkpoint(tmp_path / "c")
    last = 110 if algorithm in ("ppo", "dqn") else 40
    assert learn(whole, range(10, last)) == learn(resumed, range(10, last))
    first, second = whole.agent.state(), resumed.agent.state()
    assert first[1] == second[1]
    assert set(first[0]) == set(second[0])
    for name, tensor in first[0].items():
        np.testing.assert_array_equal(tensor, second[0][name], err_msg=name)


def test_an_older_one_leaves_the_newer(run_node: RunNode, redis_address: Address, tmp_path: Path) -> None:
    with run_node() as node:
        training = Training(node)
        training.update()
        older = tmp_path / node.answer(node.ask("save", kind="manual")).result["path"]
        training.update()
    run = RunFolder(tmp_path)
    assert newest_resumable(run) == run.checkpoint
    again = PPOTrainingNode(small_settings(), run, redis_address)
    again.load_checkpoint(older)
    again.shutdown()
    again.run()
    (kept,) = set(run.manual_saves.iterdir()) - {older}
    assert read_checkpoint(kept).info.updates == 2
    assert newest_resumable(run) == run.checkpoint
    info = read_checkpoint(run.checkpoint).info
    assert (info.attempt, info.updates) == (2, 1)


def test_checkpoints_of_other_runs_and_networks_are_refused(redis_address: Address, tmp_path: Path) -> None:
    made = PPOTrainingNode(small_settings(), RunFolder(tmp_path / "a"), redis_address)
    made.checkpoint(tmp_path / "c", {"note": "by hand"})
    others = {"network__hidden_sizes": [9], "network__activation": "relu", "env__id": "Acrobot-v1"}
    assert read_checkpoint(tmp_path / "c").info.kind == "manual"
    for key, value in others.items():
        other = PPOTrainingNode(small_settings(**{key: value}), RunFolder(tmp_path / key), redis_address)
        with pytest.raises(CheckpointMisfitError, match="was saved for") as refused:
            other.load_checkpoint(tmp_path / "c")
        assert refused.value.exit_code == UsageError.exit_code, "a trainer is not started again after that"
    (tmp_path / "c" / "state.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"state\.json has 2 bytes") as damaged:
        made.load_checkpoint(tmp_path / "c")
    assert damaged.value.exit_code != UsageError.exit_code, "it may be readable a moment later"


def test_the_configuration_is_saved_loaded_or_refused(redis_address: Address, tmp_path: Path) -> None:
    node = PPOTrainingNode({"ppo": {"gamma": 0.5}}, RunFolder(tmp_path / "a"), redis_address)
    node.save_config(tmp_path / "config.json")
    assert load_run_settings(tmp_path / "config.json") == node.training.settings
    (tmp_path / "other.json").write_text(json.dumps({"env": {"id": "Acrobot-v1"}}))
    node.load_config(tmp_path / "other.json")
    assert node.training.settings == combine([Layer("x", {"env.id": "Acrobot-v1"})])
    assert node.training.spaces.observation.shape == (6,)
    assert node.agent.spaces == node.training.spaces
    for algorithm, env, reason in (
        ("sac", "CartPole-v1", "this environment takes one of 2 actions"),
        ("dqn", "Pendulum-v1", "dqn chooses one of several numbered actions"),
    ):
        with pytest.raises(EnvironmentCheckError, match=reason) as refused:
            NODES[algorithm](settings_of(algorithm, env__id=env), RunFolder(tmp_path / env), redis_address)
        assert "algorithm: ppo" in refused.value.remedy


@pytest.mark.allow_warnings
@every
def test_a_diverged_agent_is_not_saved(
    redis_address: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, algorithm: str
) -> None:
    monkeypatch.setattr(asynchronous, "_CHECKPOINT_EVERY_S", 0.0)
    node = RunningNode(redis_address, tmp_path, settings_of(algorithm, checkpoint__every_updates=1))
    training, agent = Training(node), node.node.agent
    training.update()
    node.wait_for(lambda now: now.checkpoint_env_steps, "the good checkpoint")

    def diverge(*_: Any, **__: Any) -> dict[str, float]:
        tensors, meta = agent.state()
        spoilt = {name: np.full_like(one, np.nan) for name, one in tensors.items() if one.dtype.kind == "f"}
        agent.load_state(tensors | spoilt, meta)
        agent.updates += 1
        return {}

    monkeypatch.setattr(agent, "update", diverge)
    training.deliver()
    node.join()
    assert isinstance(node.failure, ServiceError)
    state = node.told()
    # Who notices it, the next publish or the next checkpoint, is a matter of milliseconds.
    assert "finite" in state.error
    assert state.farewell == ""
    assert training.player.weights()[0].update == 1
    assert read_checkpoint(node.run.checkpoint).info.updates == 1
    with pytest.raises(ServiceError, match="not all numbers are finite"):
        node.node.snapshot()
    node.connection.close()


@pytest.mark.allow_warnings
@each_learner
@pytest.mark.parametrize("keeps_data", [True, False], ids=["but for its last second", "without data"])
def test_training_goes_on_after_a_killed_server(tmp_path: Path, algorithm: str, keeps_data: bool) -> None:
    with faulty_node(tmp_path, settings_of(algorithm), keeps_data) as (server, node):
        training = Training(node)
        player = training.player
        older = node.connection.get(node.keys.weights)
        training.update()
        if algorithm == "ppo":
            next_round(player, training.last)
        model_id, grant = player.weights()[0].model_id, player.granted()
        if keeps_data:
            nothing_left = grant.model_copy(update={"credit_entries": 0, "round": None}).to_json()
            node.connection.mset({node.keys.weights: older, node.keys.grant(player.name): nothing_left})
            assert player.weights()[0].model_id < model_id
        server.restart()
        until(lambda: node.connection.exists(node.keys.weights), "there are weights")
        until(lambda: player.weights()[0].model_id == model_id, "the weights stand again")
        if keeps_data:
            until(lambda: player.granted().credit_entries >= grant.credit_entries, "the grant stands again")
            assert player.granted().round == grant.round
        else:
            training.player = player = join(node)
        state = training.update()
        assert (state.env_steps, state.rejected) == (_steps(algorithm, 2), {})
        assert player.weights()[0].model_id > model_id


@pytest.mark.allow_warnings
@each_learner
def test_what_the_server_did_not_take_is_sent_again_and_what_was_read_twice_is_taken_in_once(
    run_node: RunNode, monkeypatch: pytest.MonkeyPatch, algorithm: str
) -> None:
    with run_node(settings_of(algorithm)) as node:
        until(lambda: node.connection.exists(node.keys.weights), "the first weights")
        attempt, failed = node.node.attempt, set[str]()

        def fail_once(target: Any, name: str, error: Exception) -> None:
            real = getattr(target, name)

            def call(*args: Any) -> Any:
                if name not in failed:
                    failed.add(name)
                    raise error
                return real(*args)

            monkeypatch.setattr(target, name, call)

        fail_once(attempt.intake.reader, "acknowledge_parts", ConnectionError("lost"))
        fail_once(attempt.publisher, "publish", redis.ConnectionError("lost"))
        fail_once(attempt.publisher, "tell_all", redis.OutOfMemoryError("full"))
        assert Training(node).update(3).rejected == {}
        assert failed == {"acknowledge_parts", "publish", "tell_all"}
        assert node.node.training.env_steps == _steps(algorithm, 3)


def test_ids_go_on_after_everything_on_the_server_is_lost(
    run_node: RunNode, redis_address: Address, tmp_path: Path
) -> None:
    with run_node() as node:
        Training(node).update(2)
    delete_prefix(redis_address)
    with run_node(resume=True) as node:
        player = join(node)
        assert next_round(player).round_id == 4
        player.connection.delete(node.keys.weights)
        player.beat(model_id=40)
    (tmp_path / "paused").touch()
    with run_node() as node:  # a new start, in a pause, and a client that has seen more
        node.wait_for(lambda state: state.phase == "paused", "the pause")
        assert not node.connection.exists(node.keys.weights)
        for command in ("pause", "continue"):  # said twice, it is one pause
            node.answer(node.ask(command))
        until(lambda: node.node.training.model_id > 0, "the first weights")
        assert node.node.training.model_id == 41
