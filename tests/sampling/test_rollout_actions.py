"""Actions of every kind in environments that raise when they are given anything else."""

from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from numpy.typing import NDArray

from soulsgui.environments.actions import action_from_space
from soulsgui.environments.box import BoxSpec
from soulsgui.environments.choices import MultiDiscreteSpec
from soulsgui.environments.step import EnvStepper
from soulsgui.sampling.rollout import Rollout
from tests.environments.toys import SPACES_TAKEN, Taking

OBSERVATION = BoxSpec((2,), "float32", (0.0,), (1000.0,))


def _of(obs: NDArray[Any], size: int) -> NDArray[np.float32]:
    """Return what the tests draw at (episode, step): some of it beyond all bounds."""
    return (obs @ np.float32([3, -2]))[:, None] + np.arange(size, dtype=np.float32)


def _rollout(takes: str, mode: AutoresetMode, masked: bool = False, **changed: Any) -> Rollout:
    vector = SyncVectorEnv([lambda n=n: Taking(takes, masked, n) for n in (3, 4)], autoreset_mode=mode)  # type: ignore[misc]
    spec = action_from_space(SPACES_TAKEN[takes])
    stored = {"action_shape": spec.shape, "action_dtype": spec.dtype}
    return Rollout(EnvStepper(vector), OBSERVATION, 5, 3, [].append, **(stored | changed))


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
@pytest.mark.parametrize("takes", ["box", "double", "free"])
def test_what_was_drawn_is_kept_and_the_environment_takes_what_it_becomes(
    takes: str, mode: AutoresetMode
) -> None:
    space: Any = SPACES_TAKEN[takes]

    def squashed(latent: NDArray[Any]) -> NDArray[Any]:
        action: NDArray[Any] = (
            latent.reshape(-1, *space.shape).clip(space.low, space.high).astype(space.dtype)
        )
        return action

    def act(obs: NDArray[Any], rng: Any, mask: Any) -> Any:
        return _of(obs, int(np.prod(space.shape))), np.zeros(len(obs), np.float32)

    rollout = _rollout(takes, mode, to_environment=squashed)
    for segments in rollout.play(act, 1, 7, 40, lambda: True):
        rows = np.arange(segments.steps) + np.repeat(np.arange(segments.count), segments.length)
        np.testing.assert_array_equal(segments.action, _of(segments.obs[rows], int(np.prod(space.shape))))
    rollout.close()


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
@pytest.mark.parametrize("takes", ["choices", "table"])
def test_masks_of_several_choices_come_with_their_observations(takes: str, mode: AutoresetMode) -> None:
    spec = action_from_space(SPACES_TAKEN[takes])
    assert isinstance(spec, MultiDiscreteSpec)

    def act(obs: NDArray[Any], rng: np.random.Generator, mask: NDArray[np.bool_] | None) -> Any:
        assert mask is not None
        drawn = np.array([spec.random(rng, row).reshape(-1) for row in mask])
        return drawn, np.zeros(len(obs), np.float32)

    def shaped(action: NDArray[Any]) -> NDArray[Any]:
        return action.reshape(-1, *spec.space_shape)

    rollout = _rollout(takes, mode, True, masked_actions=sum(spec.sizes), to_environment=shaped)
    told = Taking(takes, masked=True)
    for segments in rollout.play(act, 1, 7, 40, lambda: True):
        assert segments.action_mask is not None
        expected = [np.concatenate(told.masks(int(step))) for step in segments.obs[:, 1]]
        np.testing.assert_array_equal(segments.action_mask, np.array(expected, np.bool_))
        rows = np.arange(segments.steps) + np.repeat(np.arange(segments.count), segments.length)
        assert spec.allowed(segments.action, segments.action_mask, rows).all()
    rollout.close()


def test_masks_of_what_is_not_numbered_are_not_looked_at() -> None:
    class Odd(Taking):
        def _told(self) -> dict[str, Any]:
            return {"action_mask": np.ones(3, np.int8)}

    stepper = EnvStepper(SyncVectorEnv([lambda: Odd("switches")], autoreset_mode=AutoresetMode.SAME_STEP))
    stepper.reset(seed=0)
    assert stepper.mask is None
    assert stepper.step(np.zeros((1, 5), np.int8)).next_mask is None
    stepper.close()
