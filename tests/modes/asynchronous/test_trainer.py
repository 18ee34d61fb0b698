"""The asynchronous trainer: what is done at which update, and what becomes of actors that fail."""

import os
import signal
import threading
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

import psutil
import pytest

from soulsgui.errors import ServiceError, UsageError
from soulsgui.modes.evaluate import Evaluation
from soulsgui.policies.policy import Policy
from soulsgui.sampling import ActorManager, ActorManagerConfig, InitGuard, SimpleStepProcessorConfig
from soulsgui.training import AsyncTrainer, AsyncTrainerConfig, Evaluator, ReplayBufferConfig
from soulsgui.training.checkpoint import read_checkpoint
from tests.faults.waiting import until
from tests.modes.asynchronous.agents import Broken, Counting

pytestmark = [pytest.mark.processes, pytest.mark.allow_warnings]


class Records(list[dict[str, float]]):
    """A recorder."""

    closed = False

    def write(self, record: Mapping[str, float]) -> None:
        self.append(dict(record))

    def close(self) -> None:
        self.closed = True


class Scripted:
    """An evaluator that gives one mean return after the other."""

    def __init__(self, *means: float) -> None:
        self.means, self.evaluated = list(means), list[Any]()

    def evaluate(self, policy: Policy, guard_init_env: InitGuard) -> Evaluation:
        self.evaluated.append(cast(Any, policy)._agent.opts)
        return Evaluation((self.means.pop(0),), (1,), 0.0)


def managed(*agents: Any, env: Any = "CartPole-v1") -> ActorManager:
    return ActorManager.build(ActorManagerConfig(n_buffer=10), agents, env, SimpleStepProcessorConfig())


def test_everything_is_done_at_its_update_and_nothing_is_left(tmp_path: Path) -> None:
    config = AsyncTrainerConfig(
        max_opts=60, model_dir=tmp_path, eval_interval=20, flush_record_interval=10,
        record_compute_cost_interval=30, record_agent_info_interval=10, save_interval=30,
        sync_interval=7, warmup_period=20,
    )  # fmt: skip
    records, evaluator, guard = Records(), Scripted(1.0, 3.0, 2.0), InitGuard(tmp_path / "guard")
    actors = managed(Counting, Counting)
    trainer = AsyncTrainer.build(config, Counting, ReplayBufferConfig(capacity=100), actors)
    before = set(psutil.Process().children(recursive=True))
    actors.run(guard)
    folder = actors.folder
    stats = trainer.train(records, cast(Evaluator, evaluator), guard)
    done = actors.stop_and_join()

    assert evaluator.evaluated == [20, 40, 60]
    assert [(one["opt_steps"], one["opts"]) for one in records] == [
        # Means of the numbers of the updates since the record before: 1 to 10, 11 to 20, …
        (10, 5.5), (20, 15.5), (30, 25.5), (40, 35.5), (50, 45.5), (60, 55.5),
    ]  # fmt: skip
    assert [one.get("eval_reward") for one in records] == [None, 1.0, None, 3.0, None, 2.0]
    samples = [one["samples_total"] for one in records if "samples_total" in one]
    assert len(samples) == 2
    assert 20 <= samples[0] < samples[1]
    saved = {name: read_checkpoint(tmp_path / name) for name in ("30", "60", "best")}
    assert {name: one.weights["opts"][0] for name, one in saved.items()} == {"30": 30, "60": 60, "best": 40}
    assert (saved["best"].info.kind, saved["best"].info.score, stats.best_eval_reward) == ("best", 3.0, 3.0)
    assert stats.opt_per_sec == pytest.approx(60 / stats.duration)
    # The memory was full several times over: nobody cared.
    assert sum(one.env_steps for one in done) >= samples[-1] > 200
    assert records.closed
    assert not folder.exists()
    assert {one for one in psutil.Process().children(recursive=True) if "valkey" in one.name()} <= before


def test_a_killed_actor_begins_again_and_what_it_did_counts(tmp_path: Path) -> None:
    config = AsyncTrainerConfig(max_opts=10**6, warmup_period=20, sync_interval=5, eval_interval=10**6)
    guard = InitGuard(tmp_path / "guard")
    with managed(Counting) as actors:
        trainer = AsyncTrainer.build(config, Counting, ReplayBufferConfig(), actors)
        actors.run(guard)
        training = threading.Thread(target=trainer.train, args=(Records(), Scripted(), guard))
        training.start()
        try:

            def steps() -> list[int]:
                return [count for count in actors._steps.values() if count > 50]

            until(steps, "steps of the first")
            os.kill(cast(Any, actors.processes.process("actor-0")).pid, signal.SIGKILL)
            until(lambda: len(steps()) == 2, "steps of the second")
        finally:
            actors.stop.set()
            training.join()
        told = sum(actors._steps.values())
        (done,) = actors.stop_and_join()
        assert done.env_steps >= told > 100


def test_an_actor_that_never_starts_ends_the_training_with_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("soulsgui.modes.local._MOST_FAILURES", 2)
    guard = InitGuard(tmp_path / "guard")
    with managed(partial(Broken, "actor")) as actors:
        config = AsyncTrainerConfig(warmup_period=20)
        trainer = AsyncTrainer.build(config, partial(Broken, "trainer"), ReplayBufferConfig(), actors)
        actors.run(guard)
        with pytest.raises(ServiceError, match=r"actor-0 failed 2 times in a row: .*not installed"):
            trainer.train(Records(), cast(Evaluator, Scripted()), guard)


def test_settings_of_an_agent_of_the_program_and_rates_of_its_actors() -> None:
    actors = managed({"dqn": {"epsilon": 0.25}}, {}, env={"id": "CartPole-v1", "num_envs": 3})
    trainer = AsyncTrainer.build(
        AsyncTrainerConfig(sync_interval=40), {"dqn.gamma": 0.9}, ReplayBufferConfig(capacity=77_700), actors
    )
    found, dqn = trainer._settings, trainer._settings.dqn
    assert (found.env.num_envs, found.client.segment_length) == (3, 10)
    assert (dqn.gamma, dqn.buffer_size, dqn.learning_starts, dqn.max_policy_lag) == (0.9, 77_700, 10_000, 80)
    assert trainer._rates == {"actor-0": 0.25}


def test_numbers_as_actions_are_learned_with_sac() -> None:
    actors = managed(Counting, env="Pendulum-v1")
    trainer = AsyncTrainer.build(AsyncTrainerConfig(), Counting, ReplayBufferConfig(), actors)
    assert (trainer._settings.algorithm, trainer._settings.sac.batch_size) == ("sac", 8)


def test_who_needs_actors_is_told() -> None:
    with pytest.raises(UsageError, match="agent_configs"):
        managed()


def test_an_evaluator_plays_the_episodes_of_its_seeds(tmp_path: Path) -> None:
    from soulsgui.modes.asynchronous.sync_model import OwnPolicy

    guard = InitGuard(tmp_path / "guard")
    first = Evaluator("CartPole-v1", 3, 4).evaluate(OwnPolicy(Counting()), guard)
    second = Evaluator({"id": "CartPole-v1"}, 4, 3).evaluate(OwnPolicy(Counting()), guard)
    assert len(first.returns) == 4
    assert first.returns[1:] == second.returns


def test_without_tensorboard_it_is_said_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from soulsgui.training import TensorboardRecorder

    monkeypatch.setitem(__import__("sys").modules, "torch.utils.tensorboard", None)
    with pytest.raises(UsageError, match="tensorboard") as caught:
        TensorboardRecorder(tmp_path)
    assert "pip install" in caught.value.remedy
