"""V-trace against its definition written out, and against the returns it must equal on-policy."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from soulsgui.rl.losses.vtrace import VTrace, policy_gradient_loss, vtrace
from soulsgui.rl.returns import gae


def run(
    ratio: list[float],
    reward: list[float],
    value: list[float],
    next_value: list[float],
    terminated: list[int],
    ends: list[int],
    **settings: float,
) -> VTrace:
    return vtrace(
        torch.tensor(ratio).log(),
        torch.tensor(reward),
        torch.tensor(value),
        torch.tensor(next_value),
        torch.tensor(terminated, dtype=torch.bool),
        torch.tensor(ends, dtype=torch.bool),
        **({"gamma": 0.5} | settings),
    )


def test_on_policy_targets_are_n_step_returns() -> None:
    found = run([1.0] * 3, [1.0, 2.0, 4.0], [3.0, 5.0, 7.0], [5.0, 7.0, 8.0], [0, 0, 0], [0, 0, 1])
    assert found.target.tolist() == [1 + 1 + 1 + 1, 2 + 2 + 2, 4 + 4]
    assert found.advantage.tolist() == [4 - 3, 6 - 5, 8 - 7]
    assert found.target.dtype == torch.float32


def test_after_termination_there_is_nothing_and_truncation_bootstraps() -> None:
    found = run([1.0] * 2, [1.0, 2.0], [0.0, 0.0], [0.0, 100.0], [0, 1], [0, 1])
    assert found.target.tolist() == [2, 2]
    found = run([1.0] * 2, [1.0, 2.0], [0.0, 0.0], [0.0, 100.0], [0, 0], [0, 1])
    assert found.target.tolist() == [1 + 26, 52]


def test_a_case_worked_out_by_hand_with_both_clips() -> None:
    # Ratios 4 and 0.5, rho clipped at 2, c at 1.
    # Last: delta = 0.5 (2 + 0.5 * 8 - 4) = 1, v = 5. First: delta = 2 (1 + 0.5 * 4 - 2) = 2,
    # v = 2 + 2 + 0.5 * 1 * (5 - 4) = 4.5; advantages: 2 (1 + 0.5 * 5 - 2) = 3 and 0.5 * (2 + 4 - 4) = 1.
    found = run([4.0, 0.5], [1.0, 2.0], [2.0, 4.0], [4.0, 8.0], [0, 0], [0, 1], rho_clip=2.0, c_clip=1.0)
    assert found.target.tolist() == pytest.approx([4.5, 5])
    assert found.advantage.tolist() == pytest.approx([3, 1])
    assert found.unweighted.tolist() == pytest.approx([1.5, 2])


def test_an_action_the_policy_would_not_take_any_more_teaches_nothing() -> None:
    found = vtrace(
        torch.tensor([-math.inf, 0.0]),
        torch.tensor([9.0, 1.0]),
        torch.tensor([2.0, 3.0]),
        torch.tensor([3.0, 4.0]),
        torch.zeros(2, dtype=torch.bool),
        torch.tensor([False, True]),
        0.5,
    )
    assert found.target.tolist() == [2, 3]
    assert found.advantage.tolist() == [0, 0]


@settings(deadline=None)
@given(
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=5),
    gamma=st.floats(0, 1),
    lam=st.floats(0, 1),
    rho_clip=st.floats(0.1, 3),
    c_clip=st.floats(0.1, 3),
    on_policy=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_equals_the_sum_of_the_definition_for_any_segments(
    lengths: list[int], gamma: float, lam: float, rho_clip: float, c_clip: float, on_policy: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    count = sum(lengths)
    reward, value, next_value, log_ratio = rng.normal(size=(4, count)).astype(np.float32)
    ends = np.zeros(count, np.bool_)
    ends[np.cumsum(lengths) - 1] = True
    next_value[:-1] = np.where(ends[:-1], next_value[:-1], value[1:])
    terminated = ends & (rng.random(count) < 0.5)
    if on_policy:
        log_ratio[:], rho_clip, c_clip = 0, 1.0, 1.0
    tensors = [torch.from_numpy(x) for x in (log_ratio, reward, value, next_value, terminated, ends)]
    found = vtrace(*tensors, gamma, lam, rho_clip, c_clip)
    ratio = np.exp(log_ratio.astype(np.float64))
    rho, c = np.minimum(ratio, rho_clip), lam * np.minimum(ratio, c_clip)
    future = np.where(terminated, 0, next_value)
    delta = rho * (reward + gamma * future - value)
    for s in range(count):
        stop = int(np.flatnonzero(ends & (np.arange(count) >= s))[0])
        # Equation 1: sum over t of gamma^(t-s) * (product of c from s to t-1) * delta_t.
        total = sum(gamma ** (t - s) * np.prod(c[s:t]) * delta[t] for t in range(s, stop + 1))
        assert found.target[s].item() == pytest.approx(value[s] + total, rel=1e-4, abs=1e-4)
    if on_policy:
        expected = gae(reward, value, next_value, terminated, ends, gamma, lam)
        np.testing.assert_allclose(found.target.numpy() - value, expected, rtol=1e-4, atol=1e-5)


def test_a_last_step_that_ends_no_stretch_is_refused() -> None:
    with pytest.raises(ValueError, match="end of its stretch"):
        run([1.0], [1.0], [1.0], [1.0], [0], [0])


def test_the_policy_follows_the_advantage() -> None:
    log_prob = torch.tensor([-1.0, -2.0], requires_grad=True)
    loss = policy_gradient_loss(log_prob, torch.tensor([3.0, -1.0]))
    assert loss.item() == pytest.approx(0.5)
    loss.backward()
    assert log_prob.grad is not None
    assert log_prob.grad.tolist() == [-1.5, 0.5]
