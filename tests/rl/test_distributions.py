"""Distributions in torch: equal to their twins in numpy, masks, draws and gradients."""

from typing import Any

import numpy as np
import pytest
import torch

from soulsgui.policies import distributions as in_numpy
from soulsgui.rl import distributions as in_torch

COUNT = 10_000
RNG = np.random.default_rng(0)
LOW, HIGH = np.array([-1.0, 0.0, -5.0], np.float32), np.array([1.0, 0.1, 3.0], np.float32)


def floats(*shape: int, scale: float = 3.0) -> Any:
    return RNG.normal(0.0, scale, shape).astype(np.float32)


def mask(*shape: int) -> Any:
    allowed = RNG.random(shape) < 0.5
    allowed[:, [0, 5]] = True  # one of each choice
    return allowed


def twins() -> list[Any]:
    deviation = np.exp(floats(COUNT, 3, scale=0.5))
    logits, allowed, mean = floats(COUNT, 8), mask(COUNT, 8), floats(COUNT, 3)
    return [
        ("Categorical", (logits,)),
        ("Categorical", (logits, allowed)),
        ("MultiDiscrete", (logits, (5, 3))),
        ("MultiDiscrete", (logits, (5, 3), allowed)),
        ("MultiBinary", (logits,)),
        ("Gaussian", (mean, deviation)),
        ("Gaussian", (mean, deviation[0])),
        ("TanhGaussian", (mean, deviation, LOW, HIGH)),
        ("TanhGaussian", (mean, np.exp(floats(COUNT, 3, scale=2.0)), LOW, HIGH)),
    ]


@pytest.mark.parametrize(("name", "given"), twins())
def test_numpy_and_torch_agree_on_10000_actions(name: str, given: tuple[Any, ...]) -> None:
    tensors = [torch.from_numpy(x) if isinstance(x, np.ndarray) else x for x in given]
    numpy, torches = getattr(in_numpy, f"Numpy{name}")(*given), getattr(in_torch, name)(*tensors)
    action = numpy.sample(np.random.default_rng(0))
    np.testing.assert_array_equal(numpy.mode(), torches.mode().numpy())
    for ours, theirs in (
        (numpy.log_prob(action), torches.log_prob(torch.from_numpy(action))),
        (numpy.entropy(), torches.entropy()),
    ):
        assert ours.dtype == np.float32
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-5, atol=1e-5)
    if name == "TanhGaussian":
        squashed = torches.to_action(torch.from_numpy(action)).numpy()
        np.testing.assert_allclose(numpy.to_action(action), squashed, rtol=1e-5, atol=1e-5)
        assert ((squashed >= LOW) & (squashed <= HIGH)).all()
    # The mean log-probability of own draws is minus the entropy; a wrong sampler misses it.
    surprise = -torches.log_prob(torches.sample(torch.Generator().manual_seed(0)))
    error = ((surprise - torches.entropy()).mean() / (surprise.std() / COUNT**0.5)).item()
    assert abs(error) < 4


def test_what_is_masked_gets_probability_0_and_no_gradient() -> None:
    logits = torch.tensor([[1.0, 9.0, 2.0], [0.0, 0.0, 0.0]], requires_grad=True)
    allowed = torch.tensor([[True, False, True], [False, False, True]])
    choice = in_torch.Categorical(logits, allowed)
    assert choice.log_prob(torch.tensor([1, 0])).exp().tolist() == [0, 0]
    assert choice.entropy()[1].item() == 0
    drawn = [choice.sample(torch.Generator().manual_seed(seed)).tolist() for seed in range(50)]
    assert {first for first, _ in drawn} == {0, 2}
    assert {second for _, second in drawn} == {2}
    (choice.log_prob(torch.tensor([0, 2])) + choice.entropy()).sum().backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()
    assert not logits.grad[~allowed].any()
    assert logits.grad[0, 0] != 0


def test_deviations_are_those_of_numpy() -> None:
    raw = floats(1_000, scale=10)
    assert in_torch.STD_TRANSFORMS.keys() == in_numpy.STD_TRANSFORMS.keys()
    for name, transform in in_torch.STD_TRANSFORMS.items():
        ours = transform(torch.from_numpy(raw), 0.5).numpy()
        np.testing.assert_allclose(ours, in_numpy.STD_TRANSFORMS[name](raw, 0.5), rtol=1e-5)
