"""Batch renormalisation by hand, and the plain layers that it is folded into."""

import math

import torch
from torch import Tensor

from soulsgui.rl.networks.mlp import build_mlp
from soulsgui.rl.networks.renorm import BatchRenorm, folded_layers, renormalised

NARROW = math.sqrt(1.001)  # deviation of a variance of 1, as it is divided by


def column(*values: float) -> Tensor:
    return torch.tensor(values)[:, None]


def test_at_first_a_batch_is_normalised_by_itself_and_the_running_statistics_learn() -> None:
    norm = BatchRenorm(1)
    torch.testing.assert_close(norm(column(11.0, 13.0)), column(-1 / NARROW, 1 / NARROW))
    torch.testing.assert_close(norm.running_mean, torch.tensor([0.12]))
    torch.testing.assert_close(norm.running_var, torch.tensor([0.99 + 0.01 * 2]))
    norm(column(0.0, 0.0))
    torch.testing.assert_close(norm.running_mean, torch.tensor([0.1188]))


def test_a_batch_is_brought_to_the_running_statistics_within_limits() -> None:
    norm = BatchRenorm(3, warm_up=1)
    with torch.no_grad():
        norm.weight.fill_(2.0)
        norm.bias.fill_(0.5)
    few = torch.zeros(4, 3)
    norm(few)
    norm.running_mean.zero_()
    norm.running_var.fill_(1.0)
    # As by the running statistics; too wide and too high; too narrow and too low.
    batch = torch.tensor([[1.0, 200.0, -9.99], [3.0, 400.0, -10.01]]).requires_grad_()
    found = norm(batch)
    part = 0.01 / math.sqrt(1e-4 + 1e-3) / 3
    normalised = torch.tensor([[1 / NARROW, 2.0, -5 + part], [3 / NARROW, 8.0, -5 - part]])
    torch.testing.assert_close(found, 2 * normalised + 0.5, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(norm.running_mean, torch.tensor([0.02, 3.0, -0.1]))
    assert norm.num_batches_tracked == 2
    found.sum().backward()
    assert batch.grad is not None
    # A batch that moves as a whole changes nothing: what brings it to the statistics passes no gradient on.
    torch.testing.assert_close(batch.grad, torch.zeros(2, 3), rtol=0, atol=1e-4)
    torch.testing.assert_close(norm.weight.grad, normalised.sum(0), rtol=1e-4, atol=1e-4)


def test_plain_layers_do_what_a_network_does_in_evaluation_mode_which_learns_nothing() -> None:
    mlp = build_mlp(4, (8, 6), 3, "relu", 1.0, torch.Generator().manual_seed(0))
    network = renormalised(mlp)
    generator = torch.Generator().manual_seed(1)
    network.train()
    for _ in range(50):
        network(3 + 2 * torch.randn(32, 4, generator=generator))
    with torch.no_grad():
        for norm in (layer for layer in network if isinstance(layer, BatchRenorm)):
            norm.weight.uniform_(0.5, 2, generator=generator)
            norm.bias.uniform_(-1, 1, generator=generator)
    network.eval()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    inputs = 3 + 2 * torch.randn(100, 4, generator=generator)
    expected = network(inputs)
    assert all(torch.equal(before[name], tensor) for name, tensor in network.state_dict().items())
    plain = build_mlp(4, (8, 6), 3, "relu", 1.0, torch.Generator())
    folded = dict(folded_layers(network, "policy"))
    for index, layer in enumerate(one for one in plain if isinstance(one, torch.nn.Linear)):
        layer.load_state_dict({part: folded.pop(f"policy.{index}.{part}") for part in ("weight", "bias")})
    assert not folded
    torch.testing.assert_close(plain(inputs), expected, rtol=1e-5, atol=1e-5)
    assert expected.std(0).min() > 0.1
