"""Learners without a system around them: plain torch, tensors that are ready, one fused optimiser."""

import copy
import shutil
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

Step = Callable[[], None]
Loss = Callable[..., Tensor]

_MAX_NORM = 10.0


def has_compiler() -> bool:
    """Whether there is a compiler of C++, without which torch compiles nothing for the CPU."""
    return any(shutil.which(name) for name in ("g++", "clang++", "c++"))


def bare_name(compiled: bool) -> str:
    """Return what the reference is called."""
    return "bare torch, fused and compiled" if compiled else "bare torch, fused (no C++ compiler here)"


def mlp(*sizes: int, activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """Return linear layers with activations between them."""
    layers: list[nn.Module] = []
    for index, (inputs, outputs) in enumerate(pairwise(sizes)):
        layers += [activation()] if index else []
        layers.append(nn.Linear(inputs, outputs))
    return nn.Sequential(*layers)


class Dueling(nn.Module):
    """One shared layer, and a stream for the value and one for the advantages.

    Args:
        size: Numbers of an observation.
        width: Of each hidden layer.
        actions: Number of actions.
    """

    def __init__(self, size: int, width: int, actions: int) -> None:
        super().__init__()
        self.torso = nn.Linear(size, width)
        self.value, self.advantage = mlp(width, width, 1), mlp(width, width, actions)

    def forward(self, obs: Tensor) -> Tensor:
        """Return values `[B, A]`."""
        features = self.torso(obs).relu()
        advantage = self.advantage(features)
        values: Tensor = self.value(features) + advantage - advantage.mean(1, keepdim=True)
        return values


class NatureCNN(nn.Module):
    """The network of Mnih et al. 2015 over stacks of four 84 × 84 images.

    Args:
        actions: Number of actions.
    """

    def __init__(self, actions: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Conv2d(4, 32, 8, 4), nn.ReLU()),
            *(nn.Conv2d(32, 64, 4, 2), nn.ReLU()),
            *(nn.Conv2d(64, 64, 3, 1), nn.ReLU()),
            *(nn.Flatten(), nn.Linear(3136, 512), nn.ReLU()),
            nn.Linear(512, actions),
        )

    def forward(self, obs: Tensor) -> Tensor:
        """Return values `[B, A]` of bytes `[B, 4, 84, 84]`."""
        values: Tensor = self.layers(obs.float() / 255)
        return values


def dqn_step(network: nn.Module, obs: Tensor, next_obs: Tensor, actions: int, compiled: bool) -> Step:
    """Return a step of double Q-learning with Huber's loss.

    Args:
        network: From observations to values.
        obs: `[B, ...]`; likewise the next one.
        next_obs: What followed.
        actions: Number of actions.
        compiled: Let torch compile the loss.
    """
    target = copy.deepcopy(network)
    count = len(obs)
    action, reward = torch.randint(actions, (count, 1)), torch.randn(count)
    discount = torch.full((count,), 0.99)

    def loss(obs: Tensor, next_obs: Tensor) -> Tensor:
        with torch.no_grad():
            chosen = network(next_obs).argmax(1, keepdim=True)
            aim = reward + discount * target(next_obs).gather(1, chosen).squeeze(1)
        return functional.smooth_l1_loss(network(obs).gather(1, action).squeeze(1), aim)

    chosen_loss = torch.compile(loss, dynamic=False) if compiled else loss
    return _step(chosen_loss, network, (obs, next_obs))


def ppo_update(size: int, actions: int, steps: int, epochs: int, minibatch: int, compiled: bool) -> Step:
    """Return an update of PPO over a round: advantages, and all its gradient steps.

    Args:
        size: Numbers of an observation.
        actions: Number of actions.
        steps: Transitions of the round.
        epochs: Passes over it.
        minibatch: Transitions of a gradient step.
        compiled: Let torch compile the loss.
    """
    policy, value = mlp(size, 64, 64, actions, activation=nn.Tanh), mlp(size, 64, 64, 1, activation=nn.Tanh)
    obs, action = torch.randn(steps + 1, size), torch.randint(actions, (steps, 1))
    old, reward = torch.full((steps,), -0.69), torch.ones(steps)

    def loss(obs: Tensor, action: Tensor, old: Tensor, advantage: Tensor, target: Tensor) -> Tensor:
        log_probs = policy(obs).log_softmax(1)
        ratio = (log_probs.gather(1, action).squeeze(1) - old).exp()
        gain = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
        entropy = -(log_probs.exp() * log_probs).sum(1).mean()
        return -gain + 0.25 * (value(obs).squeeze(1) - target).square().mean() - 0.01 * entropy

    both = nn.ModuleList([policy, value])
    step = _Steps(torch.compile(loss, dynamic=False) if compiled else loss, both)

    def update() -> None:
        for _ in range(epochs):
            with torch.no_grad():
                values = value(obs).squeeze(1)
            advantage = reward + 0.99 * values[1:] - values[:-1]
            columns = obs[:-1], action, old, advantage, advantage + values[:-1]
            for rows in torch.randperm(steps).split(minibatch):
                step(*(column[rows] for column in columns))

    return update


def autograd_step(loss: Callable[[], Tensor], network: nn.Module) -> Step:
    """Return a step with any loss, not compiled."""
    return _step(loss, network, ())


class _Steps:
    """Gradient steps with one loss.

    Args:
        loss: What is to become small.
        network: Learns.
    """

    def __init__(self, loss: Loss, network: nn.Module) -> None:
        self._loss = loss
        self._parameters = list(network.parameters())
        self._optimiser = torch.optim.Adam(self._parameters, lr=1e-4, fused=True)

    def __call__(self, *inputs: Any) -> None:
        self._optimiser.zero_grad()
        self._loss(*inputs).backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self._parameters, _MAX_NORM)
        self._optimiser.step()


def _step(loss: Loss, network: nn.Module, inputs: tuple[Tensor, ...]) -> Step:
    steps = _Steps(loss, network)
    return lambda: steps(*inputs)
