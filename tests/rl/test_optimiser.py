import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from soulsgui.rl.optimiser import Adam

STEPS_OF_ALL = """
import sys, torch
from soulsgui.rl.optimiser import Adam
parameter = torch.nn.Parameter(torch.ones(3))
parameter.grad = torch.ones(3)
Adam(parameter, 0.1).step()
print([name for name in sys.modules if name.startswith(("torch._dynamo", "torch._inductor", "sympy"))])
"""


def moved(optimiser: Adam | torch.optim.Adam, parameter: nn.Parameter, first: int, last: int) -> None:
    for step in range(first, last):
        parameter.grad = torch.randn(5, generator=torch.Generator().manual_seed(step))
        optimiser.step()


@pytest.mark.parametrize("eps", [1e-8, 1e-5])
def test_every_step_is_that_of_torch_and_so_are_those_after_a_restart(eps: float) -> None:
    ours, again, theirs = (nn.Parameter(torch.linspace(-1, 1, 5)) for _ in range(3))
    optimiser, reference = Adam(ours, 0.1, eps), torch.optim.Adam([theirs], lr=0.1, eps=eps, fused=True)
    assert optimiser.state() == {}
    for first, rate in ((0, 0.1), (5, 0.02)):
        optimiser.lr = reference.param_groups[0]["lr"] = rate
        moved(optimiser, ours, first, first + 5)
        moved(reference, theirs, first, first + 5)
    assert torch.equal(ours, theirs)
    saved = optimiser.state()
    for name in ("exp_avg", "exp_avg_sq", "step"):
        kept = reference.state[theirs][name].numpy()
        np.testing.assert_array_equal(saved[f"adam.{name}"], kept)
        assert (saved[f"adam.{name}"].shape, saved[f"adam.{name}"].dtype) == (kept.shape, kept.dtype)
    with torch.no_grad():
        again.copy_(ours)
    restarted = Adam(again, 0.02, eps)
    moved(restarted, again, 0, 1)
    with torch.no_grad():
        again.copy_(ours)
    restarted.load_state(saved | {"other": np.zeros(2)})
    moved(restarted, again, 10, 13)
    moved(reference, theirs, 10, 13)
    assert torch.equal(again, theirs)
    restarted.load_state({})
    assert restarted.state() == {}


def test_a_part_that_moves_now_and_then_moves_like_a_parameter_of_its_own() -> None:
    ours, rare, often = nn.Parameter(torch.ones(5)), nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(3))
    optimiser = Adam(ours, 0.1)
    of_rare, of_often = (torch.optim.Adam([one], lr=0.1, fused=True) for one in (rare, often))
    for step in range(1, 7):
        ours.grad = torch.randn(5, generator=torch.Generator().manual_seed(step))
        rare.grad, often.grad = ours.grad[:2].clone(), ours.grad[2:].clone()
        optimiser.step(slice(2, None))
        of_often.step()
        if step % 2 == 0:
            optimiser.step(slice(2), step // 2)
            of_rare.step()
    torch.testing.assert_close(ours, torch.cat((rare, often)), atol=1e-7, rtol=1e-6)


def test_the_compiler_of_torch_is_not_imported() -> None:
    done = subprocess.run([sys.executable, "-c", STEPS_OF_ALL], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
