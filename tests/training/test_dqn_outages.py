"""The DQN node, whole: killed servers, trainers that go on, samples that were lost on the way."""

from pathlib import Path

import numpy as np
import pytest

from soulsgui.config.paths import RunFolder
from soulsgui.rl.buffers.replay import NStepBatch
from soulsgui.training import DQNTrainingNode
from soulsgui.training.checkpoint import read_checkpoint
from soulsgui.training.intake.sessions import Exploration
from soulsgui.wire.connection import Address
from soulsgui.wire.messages.chunk import digest_number
from soulsgui.wire.messages.metrics import AttemptRow
from tests.faults.server import faulty_server
from tests.faults.waiting import until
from tests.training.nodes import BATCH, STARTS, RunningNode, dqn_settings, join, running_node
from tests.training.players import Player

HALF = STARTS // 4


def _play_on(player: Player, node: RunningNode, chunks: int) -> None:
    for _ in range(chunks):
        before = node.node.training.env_steps
        player.deliver(HALF)
        node.wait_for(lambda state: state.env_steps >= before + 2 * HALF, "they are taken in")  # noqa: B023


@pytest.mark.allow_warnings
def test_what_the_server_forgot_of_its_last_second_is_told_again(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    with (
        faulty_server(tmp_path / "server", keeps_data=True) as server,
        running_node(server.address, tmp_path / "run", dqn_settings()) as node,
    ):
        player = join(node)
        forgotten = (node.keys.grant(player.name), node.keys.weights)
        older = dict(zip(forgotten, player.connection.mget(forgotten), strict=True))
        _play_on(player, node, 4)
        until(lambda: player.weights()[0].update == 5, "what is newest is published")
        model_id, credit_steps = player.weights()[0].model_id, player.grant().credit_steps
        player.connection.mset(older)
        assert player.weights()[0].model_id < model_id
        assert player.grant().credit_steps < credit_steps
        server.restart()
        until(lambda: player.weights()[0].model_id == model_id, "the weights stand again")
        until(lambda: player.grant().credit_steps >= credit_steps, "the grant stands again")


@pytest.mark.allow_warnings
@pytest.mark.parametrize("keeps_data", [True, False], ids=["with its data", "without data"])
def test_training_goes_on_after_the_server_was_killed(tmp_path: Path, keeps_data: bool) -> None:
    (tmp_path / "server").mkdir()
    with (
        faulty_server(tmp_path / "server", keeps_data) as server,
        running_node(server.address, tmp_path / "run", dqn_settings()) as node,
    ):
        player = join(node)
        _play_on(player, node, 4)
        until(lambda: player.weights()[0].update == 5, "what is newest is published")
        model_id = player.weights()[0].model_id
        server.restart()
        if not keeps_data:
            until(player.config, "the run is told again")
            player = join(node)
        until(lambda: player.connection.exists(node.keys.weights), "the weights are there")
        assert player.weights()[0].model_id == model_id
        _play_on(player, node, 2)
        state = node.wait_for_updates(9)
        assert (state.env_steps, state.rejected) == (6 * 2 * HALF, {})
        until(lambda: player.weights()[0].model_id > model_id, "newer weights")


def test_a_run_goes_on_with_its_counters_and_an_empty_memory(redis_address: Address, tmp_path: Path) -> None:
    settings = dqn_settings(dqn__epsilon={"schedule": "linear", "from": 1, "to": 0, "over": 1000})
    with running_node(redis_address, tmp_path, settings) as node:
        player = join(node)
        _play_on(player, node, 4)
        until(lambda: player.weights()[0].update == 5, "what is newest is published")
        published = player.weights()[0]
    before = node.node.agent.state()
    with running_node(redis_address, tmp_path, settings, resume=True) as node:
        until(lambda: player.weights()[0].attempt == 2, "the next attempt")
        header, _ = player.weights()
        assert (header.update, header.digest) == (5, published.digest)  # the same agent, to the bit
        assert header.model_id > published.model_id
        after = node.node.agent.state()
        assert before[1] == after[1]
        for name, array in before[0].items():
            np.testing.assert_array_equal(array, after[0][name], err_msg=name)
        assert node.node.training.env_steps == 4 * 2 * HALF
        _play_on(player, node, 1)  # in its session: it needs no new hello
        sessions = node.node.attempt.intake.sessions
        wanted = Exploration(pytest.approx(1 - 5 * 2 * HALF / 1000))
        until(lambda: sessions.exploration == wanted, "it explores as before")
        assert (node.node.agent.updates, len(node.node.learner.memory)) == (5, 2 * HALF)
        _play_on(player, node, 1)
        assert node.wait_for_updates(6).env_steps == 6 * 2 * HALF
        attempts = [row for row in node.rows() if isinstance(row, AttemptRow)]
        assert [(row.attempt, row.update, row.env_steps) for row in attempts] == [
            (1, 0, 0),
            (2, 5, 4 * 2 * HALF),
        ]


def test_samples_of_the_weights_before_a_restart_are_taken_in(redis_address: Address, tmp_path: Path) -> None:
    settings = dqn_settings()
    with running_node(redis_address, tmp_path, settings) as node:
        player = join(node)
        oldest, _ = player.weights()
        _play_on(player, node, 4)
        until(lambda: player.weights()[0].update == 5, "what is newest is published")
        newest, _ = player.weights()
        assert newest.model_id > oldest.model_id
    for header in (newest, oldest):
        player.deliver(
            HALF,
            model_id_first=np.full(2, header.model_id),
            model_id_last=np.full(2, header.model_id),
            digest=np.full(2, digest_number(header.digest), np.uint64),
        )
    with running_node(redis_address, tmp_path, settings, resume=True) as node:
        state = node.wait_for(lambda now: now.rejected, "those of weights that nobody remembers")
        # Late is no fault of the client: it is not cut off for it.
        assert (state.rejected, state.env_steps) == ({"late": 2}, 5 * 2 * HALF)


def test_credits_go_on_after_a_restart(redis_address: Address, tmp_path: Path) -> None:
    settings = dqn_settings(dqn__buffer_size=100)
    with running_node(redis_address, tmp_path, settings) as node:
        player = join(node)
        _play_on(player, node, 2)
    before = player.grant()
    assert before is not None
    assert before.credit_steps is not None
    player.deliver(HALF)  # nobody has taken it in when the next trainer comes
    sent = 3 * 2 * HALF
    player.beat(sent_chunks=3, sent_bytes=3000, sent_steps=sent)
    with running_node(redis_address, tmp_path, settings) as node:
        node.wait_for(lambda state: state.env_steps == 2 * HALF, "it is taken in")
        until(lambda: player.grant() != before, "another grant")
        after = player.grant()
        assert after is not None
        assert after.credit_steps is not None
        # As far ahead as at the beginning: what was on its way then is not granted twice.
        assert after.credit_steps == sent + 100


def test_samples_that_the_server_lost_use_up_no_credit(redis_address: Address, tmp_path: Path) -> None:
    with running_node(redis_address, tmp_path, dqn_settings(dqn__buffer_size=100)) as node:
        player = join(node)
        _play_on(player, node, 1)
        session = node.node.attempt.intake.sessions.by_client["c"]
        granted = session.granted_steps
        # The second never came, and never will; with it all its credit is used up, so that it sends no more.
        player.beat(sent_chunks=2, sent_bytes=2 * session.size, sent_steps=granted)
        until(lambda: session.entries == 2, "its loss is noticed")
        assert session.steps == granted
        until(lambda: (found := player.grant()) and found.credit_steps == granted + 100, "credit")
        player.number += 1
        _play_on(player, node, 1)


@pytest.mark.allow_warnings
def test_what_was_read_and_not_acknowledged_is_taken_in_once(
    redis_address: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_node(redis_address, tmp_path, dqn_settings()) as node:
        player = join(node)
        ingest = node.node.attempt.intake.reader
        acknowledge, failures = ingest.acknowledge_parts, 0

        def fail_once(*args: object) -> None:
            nonlocal failures
            failures += 1
            if failures == 1:
                raise ConnectionError("lost")
            acknowledge(*args)

        monkeypatch.setattr(ingest, "acknowledge_parts", fail_once)
        _play_on(player, node, 3)
        until(lambda: failures > 3, "it was acknowledged at last")
        assert node.node.training.env_steps == node.node.learner.memory.inserted == 3 * 2 * HALF


def test_100_updates_after_a_resume_are_equal_to_the_bit(redis_address: Address, tmp_path: Path) -> None:
    def batch(number: int) -> NStepBatch:
        rng = np.random.default_rng(number)
        return NStepBatch(
            obs=rng.normal(size=(BATCH, 4)).astype(np.float32),
            action=rng.integers(0, 2, BATCH),
            reward=rng.normal(size=BATCH).astype(np.float32),
            next_obs=rng.normal(size=(BATCH, 4)).astype(np.float32),
            discount=np.where(rng.random(BATCH) < 0.2, np.float32(0), np.float32(0.99)),
        )

    settings = dqn_settings(dqn__target_interval=7)
    whole = DQNTrainingNode(settings, RunFolder(tmp_path / "a"), redis_address)
    for number in range(10):
        whole.agent.update(batch(number))
    whole.checkpoint(tmp_path / "c")
    info = read_checkpoint(tmp_path / "c").info
    assert (info.algorithm, info.agent) == ("dqn", "dqn")
    assert whole.snapshot("manual", 2.0).info.scored_by == "training"
    resumed = DQNTrainingNode(
        dqn_settings(dqn__target_interval=7, seed=99), RunFolder(tmp_path / "b"), redis_address
    )
    resumed.load_checkpoint(tmp_path / "c")
    for number in range(10, 110):
        whole.agent.update(batch(number))
        resumed.agent.update(batch(number))
    assert whole.agent.figures() == resumed.agent.figures()
    first, second = whole.agent.state(), resumed.agent.state()
    assert first[1] == second[1]
    assert set(first[0]) == set(second[0])
    for name, tensor in first[0].items():
        np.testing.assert_array_equal(tensor, second[0][name], err_msg=name)


@pytest.mark.allow_warnings
def test_a_memory_in_a_file_is_gone_on_with_and_goes_with_the_run(
    redis_address: Address, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = dqn_settings(learner__memory_limit=0, checkpoint__with_buffer=True)
    with running_node(redis_address, tmp_path, settings) as node:
        player = join(node)
        _play_on(player, node, 4)
        assert node.node.training.folder.replay.is_dir()
    assert node.node.agent.updates == 5
    settings = dqn_settings(learner__memory_limit=0)
    with running_node(redis_address, tmp_path, settings, resume=True) as node:
        until(lambda: player.weights()[0].attempt == 2, "the next attempt")
        assert len(node.node.learner.memory) == 4 * 2 * HALF
        _play_on(player, node, 1)
        node.wait_for_updates(6)  # at once: nothing has to be collected again
    assert any("lie in" in record.message for record in caplog.records)
    assert not node.node.training.folder.replay.exists()
