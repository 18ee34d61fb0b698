"""A run that rests: nothing is granted, read or learned, everything is kept, and it goes on where it was."""

from pathlib import Path

from soulsgui.wire.connection import Address
from tests.faults.waiting import until
from tests.training.nodes import dqn_settings, join, next_round, play, running_node


def test_a_paused_trainer_keeps_its_round_and_goes_on_with_it(redis_address: Address, tmp_path: Path) -> None:
    with running_node(redis_address, tmp_path) as node:
        player = join(node)
        last = play(player)
        node.wait_for_updates(1)
        share = next_round(player, last)
        assert node.answer(node.ask("pause")).ok
        state = node.wait_for(lambda state: state.phase == "paused", "the pause")
        assert state.detail == "by request"
        until(lambda: player.grant().resting, "who plays freely waits, too")
        granted = player.grant()
        player.deliver(share.steps // player.num_envs)
        began = state.tick
        # It turns, saves when asked to, and takes nothing in.
        assert node.answer(node.ask("save", kind="manual")).ok
        state = node.wait_for(lambda state: state.tick > began + 3, "three turns")
        assert (state.updates, state.phase) == (1, "paused")
        assert state.learner_waits is not None
        assert player.grant() == granted
        assert node.answer(node.ask("continue")).ok
        node.wait_for_updates(2)
        until(lambda: not player.grant().resting, "it is told to go on")
        play(player, last=share.round_id)
        node.wait_for_updates(3)


def test_a_trainer_that_is_started_in_a_pause_rests_until_it_is_told_to_go_on(
    redis_address: Address, tmp_path: Path
) -> None:
    (tmp_path / "paused").touch()
    with running_node(redis_address, tmp_path) as node:
        node.wait_for(lambda state: state.phase == "paused", "the pause")
        assert not node.connection.exists(node.keys.weights)
        node.answer(node.ask("pause"))  # said twice, it is one pause
        node.answer(node.ask("continue"))
        until(lambda: node.connection.exists(node.keys.weights), "the first weights")


def test_a_paused_learner_of_earlier_samples_makes_no_updates_either(
    redis_address: Address, tmp_path: Path
) -> None:
    with running_node(redis_address, tmp_path, dqn_settings(dqn__replay_ratio=4.0)) as node:
        player = join(node)
        player.deliver(32)
        node.wait_for_updates(1)
        node.answer(node.ask("pause"))
        before = node.node.state()
        player.deliver(32)
        node.answer(node.ask("save", kind="manual"))
        after = node.node.state()
        assert (after.updates, after.env_steps) == (before.updates, before.env_steps)
        node.answer(node.ask("continue"))
        node.wait_for(lambda state: state.env_steps > before.env_steps, "what was sent meanwhile")
