"""The gradient of deep Q-learning's loss for small networks on the CPU, written out in numpy.

`AutogradDQNGradient` defines what is right; the tests hold both together.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from soulsgui.config.sections.algorithms import DQNSettings
from soulsgui.rl.gradients.base import Gradient, Step
from soulsgui.rl.gradients.dqn import DQNParts, DQNRows, Rule, to_tensors
from soulsgui.rl.gradients.mlp_by_hand import HandMLP
from soulsgui.rl.losses.q_learning import TDLossName, n_step_target
from soulsgui.rl.networks.q_networks import HeadedNetwork

Floats = NDArray[np.float32]


class HandHeaded:
    """A torso and a head (`QHead`) as `HandMLP` takes their layers."""

    def __init__(self, network: HeadedNetwork) -> None:
        layers = network.torso.layers
        self._torso = HandMLP(layers) if any(isinstance(layer, nn.Linear) for layer in layers) else None
        self._advantage = HandMLP(network.head.advantage)
        self._value = None if network.head.value is None else HandMLP(network.head.value)
        self._atoms = network.head.atoms
        self._features: Floats = np.zeros((0, 0), np.float32)

    def forward(self, inputs: Floats) -> Floats:
        """Run the network on `[B, size]`: `[B, actions, atoms]`."""
        self._features = inputs if self._torso is None else self._torso.forward(inputs)
        rows = self._advantage.forward(self._features)
        outputs: Floats = rows.reshape(len(inputs), -1, self._atoms)
        if self._value is None:
            return outputs
        outputs = outputs - outputs.mean(1, keepdims=True)
        outputs += self._value.forward(self._features)[:, None]
        return outputs

    def backward(self, inputs: Floats, gradient: Floats) -> None:
        """Write the parameters' gradients, from the one by the outputs `[B, actions, atoms]`."""
        further = self._torso is not None
        by_advantage = gradient
        by_value: Floats | None = None
        if self._value is not None:
            total = np.add.reduce(gradient, axis=1)
            by_advantage = gradient - total[:, None] / np.float32(gradient.shape[1])
            by_value = self._value.backward(self._features, total, further)
        rows = by_advantage.reshape(len(inputs), -1)
        by_features = self._advantage.backward(self._features, rows, further)
        if self._torso is None or by_features is None:
            return
        if by_value is not None:
            by_features += by_value
        self._torso.backward(inputs, by_features)


class HandValues(HandHeaded):
    """A `HandHeaded` with one atom, as values `[B, actions]`."""

    def forward(self, inputs: Floats) -> Floats:
        """Run the network on `[B, size]`: values `[B, actions]`."""
        return super().forward(inputs)[:, :, 0]

    def backward(self, inputs: Floats, gradient: Floats) -> None:
        """Write the parameters' gradients, from the one by the values `[B, actions]`."""
        super().backward(inputs, gradient[:, :, None])


HandNetwork = HandMLP | HandHeaded
_CPU = torch.device("cpu")


class HandDQNGradient(Gradient[DQNRows, DQNSettings]):
    """Takes the gradient of values by hand; networks go from `[B, size]` to the actions' values `[B, A]`."""

    def __init__(self, online: HandNetwork, target: HandNetwork) -> None:
        self._online, self._target = online, target

    def at(self, prepared: DQNRows, settings: DQNSettings) -> Step:
        """Write the gradient at rows as they came."""
        rows, dqn = prepared, settings
        next_target_q = self._target.forward(rows.next_obs)
        next_online_q = self._online.forward(rows.next_obs) if DQNParts.of(dqn).double else next_target_q
        if dqn.q_clip is not None:
            next_target_q = np.clip(next_target_q, -dqn.q_clip, dqn.q_clip)
        reward, discount, online, target_q = (
            torch.tensor(x) for x in (rows.reward, rows.discount, next_online_q, next_target_q)
        )
        next_mask = None if rows.next_mask is None else torch.tensor(rows.next_mask)
        target = n_step_target(reward, discount, online, target_q, True, next_mask).numpy()
        q = self._online.forward(rows.obs)  # over the values of the next actions: they are read by now
        every = np.arange(len(q))
        q_taken = q[every, rows.action]
        loss, error, by_value = td_gradient(q_taken, target, dqn.loss, rows.weight)
        gradient = np.zeros_like(q)
        gradient[every, rows.action] = by_value
        self._online.backward(rows.obs, gradient)
        size = np.abs(error)
        figures = (loss, q_taken.mean(), target.mean(), size.mean())
        return Step(torch.tensor(figures, dtype=torch.float32), torch.from_numpy(size))


class HandRuleGradient(Gradient[DQNRows, DQNSettings]):
    """Takes the gradient by a network's outputs by autograd, and from there on by hand."""

    def __init__(self, online: HandNetwork, target: HandNetwork, rule: Rule) -> None:
        self._online, self._target, self._rule = online, target, rule

    def at(self, prepared: DQNRows, settings: DQNSettings) -> Step:
        """Write the gradient at rows as they came."""
        rows, dqn = prepared, settings
        tensors = to_tensors(rows, _CPU)
        following = torch.from_numpy(self._target.forward(rows.next_obs))
        double = DQNParts.of(dqn).double
        chooser = torch.from_numpy(self._online.forward(rows.next_obs)) if double else following
        with torch.no_grad():
            target = self._rule.target(tensors, following, chooser, dqn)
        outputs = torch.from_numpy(self._online.forward(rows.obs)).requires_grad_()
        result = self._rule.loss(outputs, target, tensors, dqn)
        result.loss.backward()  # type: ignore[no-untyped-call]
        if outputs.grad is None:
            raise RuntimeError("the loss does not depend on the outputs")
        self._online.backward(rows.obs, outputs.grad.numpy())
        return result.step


def td_gradient(
    q_taken: Floats, target: Floats, kind: TDLossName, weight: Floats | None = None
) -> tuple[float, Floats, Floats]:
    """Differentiate `td_sample_loss` by the values: d, or with `huber` d clipped to plus and minus 1, by `B`.

    Returns the loss, the temporal differences d `[B]`, and the gradient `[B]`.
    """
    error = q_taken - target
    slope = np.clip(error, -1, 1) if kind == "huber" else error
    # Half the square below 1 and |d| - 0.5 above are one formula: slope * (d - slope / 2).
    each = slope * (error - np.float32(0.5) * slope)
    if weight is not None:
        each, slope = each * weight, slope * weight
    return float(each.mean()), error, slope / np.float32(len(error))
