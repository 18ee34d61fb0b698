"""The asynchronous trainer: what is done at which update, and what becomes of actors that fail."""

import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import psutil
import pytest

from soulsgui.errors import EnvironmentCheckError, ServiceError, UsageError
from soulsgui.modes.asynchronous.config import PerConfig
from soulsgui.modes.evaluate import Evaluation
from soulsgui.modes.local import REDIS, LocalProcesses
from soulsgui.policies.policy import Policy
from soulsgui.sampling import ActorManager, ActorManagerConfig, InitGuard, SimpleStepProcessorConfig
from soulsgui.training import AsyncTrainer, AsyncTrainerConfig, Evaluator, ReplayBufferConfig
from soulsgui.training.checkpoint import read_checkpoint
from soulsgui.training.threads import numpy_threads
from soulsgui.wire.connection import Stopped, connect
from tests.faults.waiting import LIMIT_S, until
from tests.modes.asynchronous.agents import Broken, Counting


class Records(list[dict[str, float]]):
    """A recorder."""

    closed = False
    flushed = 0

    def flush(self) -> None:
        self.flushed += 1

    def write(self, record: Mapping[str, float]) -> None:
        self.append(dict(record))

    def close(self) -> None:
        self.closed = True


class Scripted:
    """An evaluator that gives one mean return after the other."""

    def __init__(self, *means: float) -> None:
        self.means, self.evaluated = list(means), list[Any]()

    def evaluate(self, policy: Policy, guard_init_env: InitGuard) -> Evaluation:
        assert numpy_threads(1) in (1, None), "a second one would wait for the cores that actors keep busy"
        self.evaluated.append(cast(Any, policy)._agent.opts)
        return Evaluation((self.means.pop(0),), (1,), 0.0)


def managed(*agents: Any, env: Any = "CartPole-v1") -> ActorManager:
    return ActorManager.build(ActorManagerConfig(n_buffer=10), agents, env, SimpleStepProcessorConfig())


@pytest.mark.processes
def test_everything_is_done_at_its_update_and_nothing_is_left(tmp_path: Path) -> None:
    config = AsyncTrainerConfig(
        max_opts=60, model_dir=tmp_path, eval_interval=20, flush_record_interval=15,
        record_compute_cost_interval=30, record_agent_info_interval=10, save_interval=30,
        sync_interval=7, warmup_period=20,
    )  # fmt: skip
    records, evaluator, guard = Records(), Scripted(1.0, 3.0, 2.0), InitGuard(tmp_path / "guard")
    actors = managed(Counting, Counting)
    trainer = AsyncTrainer.build(config, Counting, ReplayBufferConfig(capacity=100), actors)
    before = psutil.Process().children(recursive=True)
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
    saved = {name: read_checkpoint(tmp_path / name) for name in ("30", "60", "best", "last")}
    models = {name: one.weights["opts"][0] for name, one in saved.items()}
    assert models == {"30": 30, "60": 60, "best": 40, "last": 60}
    assert (saved["best"].info.kind, saved["best"].info.score, stats.best_eval_reward) == ("best", 3.0, 3.0)
    assert stats.opt_per_sec == pytest.approx(60 / stats.duration)
    # The memory was full several times over: nobody cared.
    assert sum(one.env_steps for one in done) >= samples[-1] > 200
    assert (records.flushed, records.closed) == (4, True)
    assert not folder.exists()
    left = [one for one in psutil.Process().children(recursive=True) if one not in before]
    assert [one for one in left if "resource_tracker" not in " ".join(one.cmdline())] == []


@pytest.fixture(autouse=True)
def _silence_is_no_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine an actor may come to no beat for long."""
    monkeypatch.setattr("soulsgui.modes.local.LOST_S", LIMIT_S)


@contextmanager
def _training(actors: ActorManager, guard: InitGuard) -> Iterator[None]:
    """Train without an end in another thread; it is ended at the end."""
    config = AsyncTrainerConfig(max_opts=10**6, warmup_period=20, sync_interval=5, eval_interval=10**6)
    trainer = AsyncTrainer.build(config, Counting, ReplayBufferConfig(), actors)
    actors.run(guard)
    with ThreadPoolExecutor() as thread:
        ended = thread.submit(trainer.train, Records(), cast(Evaluator, Scripted()), guard)
        try:
            until(lambda: actors._counted["actor-0"] > 50 or ended.done(), "steps")
            yield
        finally:
            actors.stop.set()
            ended.result()


@pytest.mark.processes
@pytest.mark.allow_warnings
def test_a_killed_actor_begins_again_and_what_it_did_counts(tmp_path: Path) -> None:
    with managed(Counting) as actors:
        with _training(actors, InitGuard(tmp_path / "guard")):
            os.kill(actors.processes.pids()["actor-0"], signal.SIGKILL)
            until(lambda: actors.processes.restarts()["actor-0"], "another one")
            told = actors._counted["actor-0"]
            until(lambda: actors._counted["actor-0"] > told + 50, "steps of the second")
        (done,) = actors.stop_and_join()
        assert done.env_steps > told + 50 > 100


@pytest.mark.skipif(sys.platform == "win32", reason="nothing stops a process there")
@pytest.mark.processes
@pytest.mark.allow_warnings
def test_an_actor_that_hangs_begins_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frozen, end = list[int](), LocalProcesses.end_hanging

    def end_the_frozen(processes: LocalProcesses, name: str, pid: int) -> None:
        if pid in frozen:  # on a busy machine others may be as silent
            end(processes, name, pid)

    monkeypatch.setattr(LocalProcesses, "end_hanging", end_the_frozen)
    monkeypatch.setattr("soulsgui.modes.local.LOST_S", 0.0)
    with managed(Counting, Counting) as actors, _training(actors, InitGuard(tmp_path / "guard")):
        frozen.append(actors.processes.pids()["actor-0"])
        os.kill(frozen[0], signal.SIGSTOP)
        until(lambda: actors.processes.restarts()["actor-0"], "another one")
        told = actors._counted["actor-0"]
        until(lambda: actors._counted["actor-0"] > told + 50, "its steps")


@pytest.mark.processes
@pytest.mark.allow_warnings
def test_the_training_goes_on_when_its_server_was_killed(tmp_path: Path) -> None:
    with managed(Counting, Counting) as actors:
        with _training(actors, InitGuard(tmp_path / "guard")):
            connection = connect(actors.address)
            os.kill(connection.info("server")["process_id"], signal.SIGKILL)
            connection.close()
            until(lambda: actors.processes.restarts()[REDIS], "another server")
            told = dict(actors._counted)
            until(lambda: all(actors._counted[name] > told[name] + 50 for name in told), "more steps")
        assert actors.processes.restarts() == {REDIS: 1, "actor-0": 0, "actor-1": 0}, "actors wait for it"


@pytest.mark.processes
@pytest.mark.allow_warnings
def test_an_actor_that_never_starts_ends_the_training_with_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("soulsgui.modes.local._MOST_FAILURES", 2)
    guard = InitGuard(tmp_path / "guard")
    with managed(partial(Broken, "actor")) as actors:
        config = AsyncTrainerConfig(warmup_period=20)
        trainer = AsyncTrainer.build(config, partial(Broken, "trainer"), ReplayBufferConfig(), actors)
        actors.run(guard)
        with pytest.raises(ServiceError, match=r"actor-0 failed 2 times in 5 minutes: .*not installed"):
            trainer.train(Records(), cast(Evaluator, Scripted()), guard)


def test_settings_of_an_agent_of_the_program_and_rates_of_its_actors() -> None:
    actors = managed({"dqn": {"epsilon": 0.25}}, {}, env={"id": "CartPole-v1", "num_envs": 3})
    trainer = AsyncTrainer.build(
        AsyncTrainerConfig(sync_interval=40), {"dqn.gamma": 0.9}, ReplayBufferConfig(capacity=77_700), actors
    )
    found, dqn = trainer._settings, trainer._settings.dqn
    assert (found.env.num_envs, found.client.segment_length) == (3, 10)
    assert (dqn.gamma, dqn.buffer_size, dqn.learning_starts, dqn.max_policy_lag) == (0.9, 77_700, 10_000, 160)
    assert trainer._rates == {"actor-0": 0.25}


def test_an_actor_may_repeat_the_settings_of_the_trainer() -> None:
    agent = {"preset": "cartpole_dqn", "dqn": {"gamma": 0.9}}
    actors = managed(agent, {"dqn": {"gamma": 0.9, "epsilon": 0.25}, "env.id": "CartPole-v1"})
    trainer = AsyncTrainer.build(AsyncTrainerConfig(), agent, ReplayBufferConfig(), actors)
    assert trainer._rates == {"actor-1": 0.25}


def test_numbers_as_actions_are_learned_with_sac() -> None:
    actors = managed(Counting, env="Pendulum-v1")
    trainer = AsyncTrainer.build(AsyncTrainerConfig(), Counting, ReplayBufferConfig(), actors)
    assert (trainer._settings.algorithm, trainer._settings.sac.batch_size) == ("sac", 8)
    assert not trainer._settings.normalize.rewards, "it learns from the rewards of the environment"


def test_a_preset_s_goal_does_not_end_the_training() -> None:
    trainer = AsyncTrainer.build(
        AsyncTrainerConfig(), {"preset": "cartpole_dqn"}, ReplayBufferConfig(), managed({})
    )
    assert (trainer._settings.stop.mean_return, trainer._settings.stop.env_steps) == (None, None)


def test_the_bias_of_priorities_is_undone_by_updates() -> None:
    buffer = ReplayBufferConfig(per_config=PerConfig(n_opts_final=1000))
    agent = {"dqn": {"batch_size": 32, "replay_ratio": 8.0}}  # an update each 4 steps
    dqn = AsyncTrainer.build(AsyncTrainerConfig(), agent, buffer, managed({}))._settings.dqn
    assert dqn.replay == "prioritised"
    assert cast(Any, dqn.priority_correction)["over"] == 4000


SCHEDULE = {"schedule": "linear", "from": 0.5, "to": 0.0, "over": 1000}


@pytest.mark.parametrize(
    ("agent", "actor", "more", "words"),
    [
        ({"algorithm": "ppo"}, {}, {}, "ppo has none"),
        ({"algorithm": "sac"}, {}, {"n_step": 3}, "single steps"),
        ({"algorithm": "sac"}, {}, {"per": True}, "per_config"),
        (Counting, Counting, {"per": True}, "per_config"),
        (Counting, {}, {}, "two kinds"),
        ({"dqn": {"exploration": "ladder"}}, {"dqn": {"epsilon": 0.1}}, {}, "ladder"),
        ({"algorithm": "sac"}, {"dqn.epsilon": 0.1}, {}, "of no use to sac"),
        ({}, {"dqn": {"epsilon": SCHEDULE}}, {}, "a schedule"),
        ({"dqn.gamma": 0.9}, {"dqn.gamma": 0.8, "env.id": "Acrobot-v1"}, {}, r"trainer: dqn\.gamma, env\.id"),
        ({}, {"preset": "cartpole_async"}, {}, r"clients\.local"),
        ({"determinism": "lockstep", "clients.local": 1}, {}, {}, "lockstep"),
        ({"inference": "server"}, {}, {}, "inference: server"),
        ({"preset": "cartpole_seed"}, {}, {}, "inference: server"),
        (None, {}, {}, "agent_config is None"),
        ({}, "ab", {}, r"agent_configs\[0\] is 'ab'"),
        ({}, None, {}, r"agent_configs\[0\] is None"),
        ({}, {}, {"warmup": 20_000}, "warmup_period"),
    ],
)
def test_what_does_not_go_together_is_refused(agent: Any, actor: Any, more: Any, words: str) -> None:
    buffer = ReplayBufferConfig(per_config=PerConfig() if "per" in more else None)
    config = AsyncTrainerConfig(warmup_period=more.get("warmup", 10))
    step_proc_config = SimpleStepProcessorConfig(n_step=more.get("n_step", 1))

    def build() -> None:
        actors = ActorManager.build(ActorManagerConfig(), [actor], "CartPole-v1", step_proc_config)
        AsyncTrainer.build(config, agent, buffer, actors)

    with pytest.raises(UsageError, match=words):
        build()


@pytest.mark.parametrize(
    ("agent", "env", "words"),
    [
        ({}, "Nowhere-v0", "There is no environment “Nowhere-v0”"),
        ({}, "Pendulum-v1", "dqn can't choose .*\nSet algorithm: sac$"),
        ({"algorithm": "sac"}, "CartPole-v1", "sac can't choose .*\nSet algorithm: dqn$"),
    ],
)
def test_an_environment_that_can_not_be_learned_is_told_at_once(agent: Any, env: str, words: str) -> None:
    with pytest.raises(EnvironmentCheckError, match=words):
        AsyncTrainer.build(AsyncTrainerConfig(), agent, ReplayBufferConfig(), managed({}, env=env))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Evaluator("CartPole-v1", 0, 0), "n_episodes of the Evaluator is 0"),
        (lambda: Evaluator("CartPole-v1", 0, cast(Any, 2.5)), r"n_episodes of the Evaluator is 2\.5"),
        (lambda: Evaluator("CartPole-v1", -1, 3), "seed of the Evaluator is -1"),
        (lambda: Evaluator(cast(Any, None), 0, 3), "environment is None"),
        (lambda: managed({}, env=5), "environment is 5"),
        (lambda: InitGuard(Path(__file__).parent), "InitGuard has no file"),
    ],
)
def test_what_can_not_be_used_is_told_at_once(make: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        make()


@pytest.mark.processes
@pytest.mark.allow_warnings  # on a busy computer the actor is still being loaded when its time to end is over
def test_things_in_another_order_are_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="agent_configs"):
        managed()
    actors, guard = managed(Counting), InitGuard(tmp_path / "new" / "guard")
    trainer = AsyncTrainer.build(AsyncTrainerConfig(), Counting, ReplayBufferConfig(), actors)
    with pytest.raises(UsageError, match="do not run"):
        trainer.train(Records(), cast(Evaluator, Scripted()), guard)
    with pytest.raises(UsageError, match="do not run"):
        actors.stop_and_join()
    actors.run(guard)
    actors.stop_and_join()
    with pytest.raises(UsageError, match="do not run"):
        trainer.train(Records(), cast(Evaluator, Scripted()), guard)


def test_an_agent_that_can_not_travel_is_told_before_anything_starts(tmp_path: Path) -> None:
    actors = managed(lambda: Counting())
    with pytest.raises(UsageError, match=r"actor-0 can't be started: .*lambda"):
        actors.run(InitGuard(tmp_path / "guard"))
    with pytest.raises(UsageError, match="do not run"):
        actors.stop_and_join()


def test_a_server_that_does_not_start_is_told_and_nobody_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("soulsgui.modes.local._SERVER_START_S", -1.0)
    actors = managed(Counting)
    with pytest.raises(ServiceError, match=r"does not answer after .* process lives"):
        actors.run(InitGuard(tmp_path / "guard"))
    with pytest.raises(UsageError, match="do not run"):
        actors.stop_and_join()
    with pytest.raises(UsageError, match="before"):
        actors.run(InitGuard(tmp_path / "guard"))


def test_a_guard_is_not_waited_for_when_the_program_is_asked_to_stop(tmp_path: Path) -> None:
    guard, stop = InitGuard(tmp_path / "guard"), threading.Event()
    stop.set()
    with guard(), pytest.raises(Stopped), guard(stop):
        pass


class Failing(Records):
    """A recorder whose disk is full from the third update on."""

    def write(self, record: Mapping[str, float]) -> None:
        if record["opt_steps"] >= 3:
            raise OSError(28, "No space left on device")


@pytest.mark.processes
def test_what_was_learned_is_saved_whatever_recorder_and_evaluator_do(tmp_path: Path) -> None:
    guard, taken = InitGuard(tmp_path / "guard"), tmp_path / "taken"
    taken.touch()
    config = AsyncTrainerConfig(
        max_opts=5,
        model_dir=tmp_path / "new",
        record_agent_info_interval=1,
        eval_interval=2,
        warmup_period=20,
    )
    with managed(Counting) as actors:
        trainer = AsyncTrainer.build(config, Counting, ReplayBufferConfig(), actors)
        unsaved = AsyncTrainer.build(
            config.model_copy(update={"model_dir": taken}), Counting, ReplayBufferConfig(), actors
        )
        actors.run(guard)
        with pytest.raises(UsageError, match="model_dir"):
            unsaved.train(Records(), cast(Evaluator, Scripted()), guard)
        with pytest.raises(OSError, match="No space left"):
            trainer.train(Failing(), cast(Evaluator, Scripted(float("nan"))), guard)
    saved = {one.name for one in (tmp_path / "new").iterdir()}
    assert saved == {"last"}, "a mean that is no number is not the best one"
    assert read_checkpoint(tmp_path / "new" / "last").weights["opts"][0] == 3


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

    monkeypatch.setitem(__import__("sys").modules, "tensorboard.compat.proto", None)
    with pytest.raises(UsageError, match="tensorboard") as caught:
        TensorboardRecorder(tmp_path)
    assert "pip install" in caught.value.remedy
