"""A training that diverges: found out, not published, taken back to the last checkpoint, given up at last."""

import math
from pathlib import Path
from typing import Any

import pytest

from soulsgui.config.sections.run import GuardSettings
from soulsgui.training.checkpoint import read_checkpoint
from soulsgui.training.divergence import Diverged, DivergenceError, Divergences, find_divergence
from soulsgui.wire.connection import Address
from tests.training.nodes import RunningNode, RunNode, join, play, small_settings

pytestmark = pytest.mark.allow_warnings


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"loss": 0.3, "q_mean": 1e4, "grad_norm": 5e3, "approx_kl": 2.0}, ""),
        ({"loss": math.nan}, "loss is nan"),
        ({"value_loss": 2e10}, "value_loss is 2e+10, beyond guard.max_loss 1e+10"),
        ({"policy_loss": -2e10}, "policy_loss is -2e+10, beyond guard.max_loss 1e+10"),
        ({"q_mean": -3e8}, "q_mean is -3e+08, beyond guard.max_q_value 1e+08"),
        ({"target_mean": math.inf}, "target_mean is inf"),
        ({"grad_norm": 1e11}, "grad_norm is 1e+11, beyond guard.max_grad_norm 1e+10"),
        ({"approx_kl": 101.0}, "approx_kl is 101, beyond guard.max_kl 100"),
        # What is told beside the learning itself may be anything.
        ({"explained_variance": math.nan, "env_steps_per_s": 1e12}, ""),
    ],
)
def test_what_has_left_all_bounds_is_named_with_its_bound(values: dict[str, float], said: str) -> None:
    assert find_divergence(values, GuardSettings()) == said
    free = GuardSettings(max_loss=None, max_grad_norm=None, max_q_value=None, max_kl=None)
    not_finite = not math.isfinite(sum(values.values())) and "explained_variance" not in values
    assert find_divergence(values, free) == (said if not_finite else "")


def test_restores_in_a_row_are_counted_over_processes_until_one_is_overcome(tmp_path: Path) -> None:
    path = tmp_path / "divergence.json"
    assert Divergences(path).last is None
    Divergences(path).note(8, "loss is nan")
    assert Divergences(path).note(6, "loss is inf") == Diverged(6, "loss is inf", 2)
    again = Divergences(path)
    assert [again.overcome(update) for update in (6, 7, 8)] == [False, True, False]
    assert Divergences(path).last is None
    path.write_text('{"update": ')
    assert Divergences(path).last is None, "a damaged one counts as none"


def _explode(node: RunningNode, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    update = node.node.agent.update

    def explode(*given: Any) -> dict[str, float]:
        values: dict[str, float] = update(*given)
        return values | ({"value_loss": 1e12} if node.node.agent.updates == at else {})

    monkeypatch.setattr(node.node.agent, "update", explode)


def test_what_exploded_is_not_published_and_the_last_checkpoint_goes_on(
    run_node: RunNode, redis_address: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = small_settings(checkpoint__every_updates=2, guard__max_restores=1)
    node = RunningNode(redis_address, tmp_path, settings)
    player = join(node)
    _explode(node, monkeypatch, at=3)
    last = play(player, rounds=2)
    node.wait_for(lambda now: now.checkpoint_env_steps, "the good checkpoint")
    play(player, last=last)
    node.join()
    assert isinstance(node.failure, DivergenceError)
    said = "value_loss is 1e+12, beyond guard.max_loss 1e+10"
    assert node.told().error == f"The training has diverged at update 3: {said}."
    assert player.weights()[0].update == 2
    assert max(row.update for row in node.update_rows()) == 2
    assert read_checkpoint(node.run.checkpoint).info.updates == 2
    node.connection.close()

    with run_node(settings, resume=True) as again:
        state = again.wait_for(lambda now: now.diverged, "it says so")
        assert state.diverged == (
            f"The training diverged at update 3: {said}. It continues from update 2 (restore 1 of 1)"
        )
        last = play(join(again), rounds=2)
        state = again.wait_for(lambda now: not now.diverged, "the place is passed")
        assert (state.updates, state.stop_reason) == (4, "")
    assert not again.run.divergence.exists()


def test_after_too_many_restores_in_a_row_the_run_is_to_be_ended(run_node: RunNode, tmp_path: Path) -> None:
    Divergences(tmp_path / "divergence.json").note(7, "loss is nan")
    Divergences(tmp_path / "divergence.json").note(9, "loss is inf")
    with run_node(small_settings(guard__max_restores=1)) as node:
        state = node.wait_for(lambda now: now.stop_reason, "it is given up")
        assert state.stop_reason == (
            "The training diverged 2 times in a row, at last at update 9: loss is inf"
        )
        assert (state.diverged, state.updates) == ("", 0)
    # Who resumes it wants it to be tried again.
    assert not node.run.divergence.exists()
