"""What the DQN node makes of its settings, without a server: agent, memory, exploration, what it saves."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from soulsgui.config.paths import RunFolder
from soulsgui.errors import CheckpointMisfitError
from soulsgui.experience.segments import TERMINATED, Segments
from soulsgui.policies.exploration import without_noise
from soulsgui.policies.policy import make_policy
from soulsgui.runner.run.checkpoints import Checkpoints
from soulsgui.training.intake.sessions import Exploration
from soulsgui.training.nodes import DQNTrainingNode
from soulsgui.training.publisher import Publisher
from soulsgui.wire.connection import Address
from soulsgui.wire.keys import Keys
from tests.experience.segments import segments_of
from tests.training.nodes import dqn_settings

ADDRESS = Address(host="127.0.0.1", port=1, prefix="souls:", password="")


def node(root: Path, **changes: Any) -> DQNTrainingNode:
    return DQNTrainingNode(dqn_settings(**changes), RunFolder(root), ADDRESS)


def fill(made: DQNTrainingNode, episodes: int = 8, length: int = 10) -> None:
    rng = np.random.default_rng(1)
    steps = episodes * length
    obs = rng.normal(size=(steps + episodes, *made.training.spaces.observation.shape)).astype(np.float32)
    made.learner.memory.add(
        segments_of(
            np.full(episodes, length),
            obs,
            action=rng.integers(2, size=steps),
            reward=rng.normal(size=steps).astype(np.float32),
            terminated=np.arange(episodes) % 2 == 0,
            truncated=np.arange(episodes) % 2 == 1,
            source=np.zeros(episodes, np.int64),
            episode=np.arange(episodes),
        )
    )


def learn(made: DQNTrainingNode, updates: int = 2) -> None:
    for _ in range(updates):
        batch, number = made.learner.memory.draw(16, made.agent.sample_rng)
        error = made.agent.update(batch)
        if number is not None and error is not None:
            made.learner.memory.learned(number, error)


@pytest.mark.parametrize("agent", ["dqn", "qr_dqn", "c51", "iqn", "rainbow"])
def test_agent_and_memory_go_on_from_a_checkpoint_to_the_bit(tmp_path: Path, agent: str) -> None:
    changes = {"dqn__agent": agent, "dqn__replay": "prioritised", "dqn__n_step": 3, "dqn__quantiles": 4}
    first = node(tmp_path / "a", **changes)
    fill(first)
    learn(first)
    first.checkpoint(tmp_path / "saved", {"buffer": True})
    second = node(tmp_path / "b", seed=9, **changes)
    second.load_checkpoint(tmp_path / "saved")
    assert len(second.learner.memory) == 80
    shape = first.training.spaces.observation.shape
    obs = np.random.default_rng(3).normal(size=(50, *shape)).astype(np.float32)
    for _ in range(2):
        np.testing.assert_array_equal(first.agent.outputs(obs), second.agent.outputs(obs))
        for made in (first, second):
            learn(made)
    one, other = (made.agent.state()[0] | made.learner.memory.state() for made in (first, second))
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name], err_msg=name)


def publish(made: DQNTrainingNode, model_id: int) -> dict[str, NDArray[Any]]:
    """Make the agent's weights the newest ones, as the node's loop does; return what clients get."""
    if not hasattr(made, "attempt"):
        publisher = Publisher(Keys("souls:"), cast(Any, SimpleNamespace(run_id="r", attempt=1)))
        made.attempt = cast(Any, SimpleNamespace(publisher=publisher))
    made.training.model_id = model_id
    made.attempt.publisher.prepare(made.training.position(made.agent.updates), made.learner.weights())
    return made.attempt.publisher.kept(model_id).tensors


def test_best_weights_are_those_that_earned_it_without_the_noise_that_explores(tmp_path: Path) -> None:
    made = node(tmp_path, dqn__agent="rainbow")
    fill(made)
    learn(made)
    still = made.snapshot().weights
    policy = make_policy(made.agent.policy_spec())
    published = publish(made, 5)
    policy.load(published)  # clients take the noisy ones out of it
    noisy = made.agent.export_weights()
    np.testing.assert_array_equal(published["policy.0.weight"], noisy["policy.0.weight"])
    assert not np.array_equal(still["policy.0.weight"], noisy["policy.0.weight"])
    newest = made.weights_snapshot(5, 1.0, "evaluation")
    learn(made)
    later = made.weights_snapshot(5, 1.0, "evaluation")
    publish(made, 6)
    older = made.weights_snapshot(5, 1.0, "evaluation")
    assert [one.info.resumable for one in (newest, later, older)] == [True, False, False]
    assert {one.info.updates for one in (newest, later, older)} == {2}
    for found in (newest.weights, later.weights, older.weights, without_noise(published)):
        assert found.keys() == still.keys()
        for name, array in still.items():
            np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"dqn__buffer_size": 200}, "one of 200 transitions"),
        ({"dqn__n_step": 3}, "chains of episodes are missing"),
        ({"dqn__replay": "prioritised"}, "priorities"),
    ],
)
def test_a_memory_that_does_not_fit_is_refused(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    first = node(tmp_path / "a", dqn__n_step=1)
    fill(first)
    first.checkpoint(tmp_path / "saved", {"buffer": True})
    with pytest.raises(CheckpointMisfitError, match=reason) as refused:
        node(tmp_path / "b", **{"dqn__n_step": 1, **changes}).load_checkpoint(tmp_path / "saved")
    assert "soulsgui run resume --checkpoint ID" in refused.value.remedy


@pytest.mark.allow_warnings
def test_a_memory_in_a_file_outlives_a_resume_with_another_agent(tmp_path: Path) -> None:
    saved = {"learner__memory_limit": 0, "dqn__agent": "qr_dqn", "dqn__quantiles": 4}
    first = node(tmp_path / "a", **saved)
    fill(first)
    first.checkpoint(tmp_path / "saved", {"buffer": True})
    first.learner.memory.close(leave=True)
    with pytest.raises(CheckpointMisfitError, match="does not fit this agent"):
        node(tmp_path / "a", **(saved | {"dqn__quantiles": 8})).load_checkpoint(tmp_path / "saved")
    again = node(tmp_path / "a", **saved)
    again.load_checkpoint(tmp_path / "saved")
    assert len(again.learner.memory) == 80


@pytest.mark.allow_warnings
def test_the_memory_is_saved_where_asked_with_how_far_learner_and_clients_are(tmp_path: Path) -> None:
    changes = {"dqn__learning_starts": 40, "dqn__replay_ratio": 1.0}
    for always in (False, True):
        first = node(tmp_path / "a", checkpoint__with_buffer=always, **changes)
        fill(first)
        kinds = {kind: bool(first.snapshot(kind).memory) for kind in ("current", "best", "manual")}
        assert kinds == {"current": always, "best": False, "manual": False}
        assert first.snapshot("manual", buffer=True).memory["reward"].shape == (80,)
    first.learner.learning = True
    first.learner.band.drawn, first.learner.band.inserted = 72, 80
    first.checkpoint(tmp_path / "with", {"buffer": True})
    first.checkpoint(tmp_path / "without")
    for name, ratio, expected in (
        ("with", 1.0, (True, 72, 80)),
        ("without", 1.0, (False, 0, 0)),
        ("with", 4.0, (False, 0, 0)),
    ):
        second = node(tmp_path / "b", **(changes | {"dqn__replay_ratio": ratio}))
        second.load_checkpoint(tmp_path / name)
        assert (second.learner.learning, second.learner.band.drawn, second.learner.band.inserted) == expected
    for limit in (None, 0):  # in memory, or in a file
        made = node(tmp_path / f"limit {limit}", learner__memory_limit=limit)
        fill(made)
        run = made.training.folder
        for buffer in (True, False):
            made.checkpoint(run.manual_saves / str(buffer), {"buffer": buffer})
        made.learner.memory.close()
        told = [Checkpoints().get(run, f"{run.manual_saves.name}/{name}") for name in (True, False)]
        saved = [(one.memory, one.memory_in_file) for one in told]
        assert saved == [(limit is None, limit == 0), (False, False)]


@pytest.mark.parametrize(
    ("changes", "steps"), [({}, 5), ({"n_step": 1}, 1), ({"agent": "rainbow", "n_step": 3}, 3)]
)
def test_windows_and_priorities_are_as_is_set(tmp_path: Path, changes: dict[str, Any], steps: int) -> None:
    made = node(tmp_path, dqn__gamma=0.5, **{f"dqn__{name}": value for name, value in changes.items()})
    fill(made, episodes=1, length=100)
    batch, _ = made.learner.memory.draw(500, np.random.default_rng(0))
    assert np.count_nonzero(batch.discount == 0.5**steps) > 400
    for exponent, share in ((0.0, 0.5), (0.5, 2 / 3), (1.0, 0.8)):
        made = node(tmp_path, dqn__replay="prioritised", dqn__priority_exponent=exponent)
        fill(made)
        made.learner.memory.learned(np.arange(80), np.where(np.arange(80) < 40, 4.0, 1.0))
        number = made.learner.memory.draw(3000, np.random.default_rng(0)).number
        assert (number < 40).mean() == pytest.approx(share, abs=0.01)


EPSILON = {"dqn__epsilon": {"schedule": "linear", "from": 1.0, "to": 0.5, "over": 100}}
TEMPERATURE = {"dqn__temperature": {"schedule": "linear", "from": 2.0, "to": 1.0, "over": 200}}


@pytest.mark.parametrize(
    ("changes", "after_50"),
    [
        (EPSILON, Exploration(0.75)),
        (EPSILON | {"dqn__exploration": "ladder"}, Exploration(0.75, ladder=7.0)),
        (
            EPSILON | {"dqn__exploration": "ladder", "dqn__ladder_exponent": 3.0},
            Exploration(0.75, ladder=3.0),
        ),
        (EPSILON | {"dqn__exploration": "noisy"}, Exploration(0.75)),
        (EPSILON | {"dqn__agent": "rainbow"}, Exploration(0.75)),
        (TEMPERATURE | {"dqn__exploration": "boltzmann"}, Exploration(temperature=1.75)),
    ],
)
def test_clients_explore_as_is_set(tmp_path: Path, changes: dict[str, Any], after_50: Exploration) -> None:
    made = node(tmp_path, **changes)
    made.training.env_steps = 50
    assert made.learner.algorithm.exploration(made.training.moment) == after_50


def _taken(made: DQNTrainingNode, reward: list[float], first_step: int, flags: int) -> Segments:
    return segments_of(
        [len(reward)],
        np.zeros((len(reward) + 1, *made.training.spaces.observation.shape), np.float32),
        reward=np.array(reward, np.float32),
        flags=np.array([flags], np.uint8),
        first_step=np.array([first_step]),
        source=np.zeros(1, np.int64),
    )


@pytest.mark.parametrize("agent", ["dqn", "rainbow"])
def test_rewards_are_remembered_as_they_are_to_be_learned_from(tmp_path: Path, agent: str) -> None:
    changes = {"normalize__rewards": True, "normalize__reward_clip": 1.5, "dqn__gamma": 0.5}
    made = node(tmp_path, dqn__agent=agent, **changes)
    taken = _taken(made, [1.0, 3.0], 0, 0), _taken(made, [-8.0, 1.0], 2, TERMINATED)
    first = made.learner.rewarded(taken[0]).reward
    np.testing.assert_allclose(first, np.minimum(np.array([1, 3]) / np.std([1, 3.5]), 1.5), rtol=1e-5)
    # In the middle of the episode the agent is saved; the return goes on where it was.
    again = node(tmp_path / "again", dqn__agent=agent, **changes)
    again.agent.load_state(*made.agent.state())
    totals = [1, 3.5, -6.25, -2.125]
    for one in (made, again):
        learned = one.learner.rewarded(taken[1]).reward
        np.testing.assert_allclose(learned, [-1.5, 1 / np.std(totals)], rtol=1e-5)
    assert made.agent.rewards.figures()["reward_std"] == pytest.approx(np.std(totals))


def test_learning_rate_and_correction_of_priorities_follow_their_schedules(tmp_path: Path) -> None:
    rate = {"schedule": "exponential", "from": 1e-2, "to": 1e-4, "over": 100}
    correction = {"schedule": "linear", "from": 0.2, "to": 1, "over": 100}
    changes = {"dqn__replay": "prioritised", "dqn__priority_correction": correction}
    made = node(tmp_path, dqn__learning_rate=rate, **changes)
    fill(made)
    made.training.env_steps = 50
    made.agent.moment = made.training.moment
    learn(made)
    assert made.agent.figures()["learning_rate"] == pytest.approx(1e-3)
    found = []
    for steps in (0, 50, 100, 1000):
        made.training.env_steps = steps
        found.append(made.learner.algorithm.scheduled(made.training.moment)["priority_correction"])
        assert made.learner.own_figures({})["priority_correction"] == found[-1]
    assert found == pytest.approx([0.2, 0.6, 1.0, 1.0])
