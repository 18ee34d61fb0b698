"""What a loop by hand brings back is stored as it was drawn, not as it was squashed."""

import numpy as np

from soulsgui.environments.actions import ActionSpec, action_from_space
from soulsgui.policies.action_heads import HeadSpec
from soulsgui.policies.numpy_mlp import MLPPolicySpec
from soulsgui.policies.policy import Policy, actor_spec, make_policy
from soulsgui.sampling.connectors import base as room
from soulsgui.sampling.connectors.base import ActionCache
from tests.environments.toys import SPACES_TAKEN

BOX, CHOICES = (action_from_space(SPACES_TAKEN[takes]) for takes in ("box", "choices"))


def _policy(spec: ActionSpec) -> Policy:
    head = HeadSpec(spec.to_json())
    return make_policy(actor_spec(MLPPolicySpec((2,), head.outputs, 0, (), "tanh", False).to_json(), head))


POLICY = _policy(BOX)


def test_draws_beyond_the_bounds_come_back_whole() -> None:
    remembered = ActionCache(BOX)
    latents = np.float32([[0.1, -0.2, 0.3], [40, 0, 0], [-50, 60, 0]])
    taken = [remembered.given_out(latent, POLICY) for latent in latents]
    for action, latent in zip(taken, latents, strict=True):
        assert SPACES_TAKEN["box"].contains(action)
        np.testing.assert_array_equal(remembered.stored(BOX.read(action), POLICY), latent)


def test_of_equal_actions_the_newest_draw_counts() -> None:
    remembered = ActionCache(BOX)
    for far in (40.0, 30.0):
        action = remembered.given_out(np.float32([far, 0, 0]), POLICY)
    np.testing.assert_array_equal(remembered.stored(BOX.read(action), POLICY), np.float32([30, 0, 0]))


def test_an_action_that_nobody_drew_is_one_that_becomes_it() -> None:
    row = BOX.read(np.float32([1.0, 0.25, 6.0]))
    stored = ActionCache(BOX).stored(row, POLICY)
    np.testing.assert_allclose(POLICY.to_environment(stored[None])[0], row, rtol=1e-5)


def test_the_oldest_draws_are_forgotten(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(room, "_MOST", 2)
    remembered = ActionCache(BOX)
    for number in range(5):
        remembered.given_out(np.float32([0.01 * number, 0, 0]), POLICY)
    assert len(remembered._drawn) == 2


def test_choices_pass_as_they_are() -> None:
    policy = _policy(CHOICES)
    remembered, action = ActionCache(CHOICES), np.array([2, 6, -1])
    np.testing.assert_array_equal(remembered.given_out(action, policy), action)
    assert remembered.stored(action, policy) is action
    assert not remembered._drawn
