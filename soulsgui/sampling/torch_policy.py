"""Policies that numpy can't run: the server's network itself, built here from its description.

The only room of the clients that knows torch; `policies.policy.make_policy` comes here when a server asks.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from soulsgui.environments.choices import DiscreteSpec
from soulsgui.environments.observations import seen_of
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.errors import HardwareError
from soulsgui.policies.numpy_recurrent import NumpyRecurrentPolicy
from soulsgui.policies.specs import TORCH_RECURRENT, TorchPolicySpec, reading_description
from soulsgui.policies.value_based import Floats, ValueBasedPolicy, fitting
from soulsgui.rl.agents.dqn_kinds import kind_told
from soulsgui.rl.inputs import laid_out
from soulsgui.rl.networks.named import build_network, named_torso, sees_images

_STATISTICS = ("mean", "var", "eps", "clip")


class TorchPolicy(ValueBasedPolicy):
    """Acts with the network that exported the weights, on a device as torch names it."""

    def __init__(self, spec: Mapping[str, Any], device: str = "cpu") -> None:
        self.spec = read = TorchPolicySpec.from_json(spec)
        super().__init__(read.num_actions, read.first_action)
        shape, channels = read.observation_shape, read.channels
        self._seen = seen_of(shape, read.observation_dtype, read.largest, channels)
        # Weights come over the wire: the first ones are never acted with.
        self._make(torch.Generator().manual_seed(0))
        self._network.to(device)
        self._device = device
        self._sees_images = sees_images(read.network, self._seen)
        self._statistics: dict[str, NDArray[Any]] = {}

    def _make(self, generator: torch.Generator) -> None:
        spec, seen = self.spec, self._seen
        self._network: nn.Module
        self._run: Callable[[Tensor], Tensor]
        if spec.values is None:
            policy = build_network(
                spec.network, seen, spec.hidden_sizes, spec.activation, spec.num_actions, 1.0, generator
            )
            self._network, self._run = policy, policy
            return
        with reading_description():
            kind = kind_told(SpacesSpec(seen, DiscreteSpec(spec.num_actions)), spec)
            self._network = network = kind.network(generator)

        def run(inputs: Tensor) -> Tensor:
            return kind.values(network, inputs)

        self._run = run

    def load(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Take weights over; nothing is kept of the arrays given."""
        arrays = _fitting_arrays(self._network, tensors, "policy")
        if self.spec.normalise:
            size = self._seen.fields[-1][1].size
            shapes = zip(_STATISTICS, ((size,), (size,), (), ()), strict=True)
            self._statistics = {name: fitting(tensors, f"normaliser.{name}", shape) for name, shape in shapes}
        self._network.load_state_dict(arrays)

    @property
    def module(self) -> nn.Module:
        """What computes `outputs` of what is laid out for it, as one module."""
        return _Whole(self._network, self._run)

    def outputs(self, obs: NDArray[Any]) -> Floats:
        """Return what the network says of observations `[B, *shape]`: logits or values `[B, actions]`."""
        inputs = laid_out(obs, self._statistics if self.spec.normalise else None, self._sees_images)
        return _outputs(self._run, inputs, self._device)


class _Whole(nn.Module):
    def __init__(self, network: nn.Module, run: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.network, self._run = network, run

    def forward(self, inputs: Tensor) -> Tensor:
        return self._run(inputs)


class TorchRecurrentPolicy(NumpyRecurrentPolicy):
    """Acts with the server's network before the memory, on a device; memory and head in numpy."""

    def __init__(self, spec: Mapping[str, Any], device: str = "cpu") -> None:
        super().__init__(spec)
        read, torso = self.spec, self.spec.torso
        assert torso is not None
        with reading_description():
            shape, dtype = read.observation_shape, torso.observation_dtype
            seen = seen_of(shape, dtype, torso.largest, torso.channels)
        # Weights come over the wire: the first ones are never acted with.
        self._torso, features = named_torso(
            torso.network, seen, read.hidden_sizes, read.activation, torch.Generator().manual_seed(0)
        )
        self._torso.to(device)
        self._device = device
        self._sizes = seen.fields[-1][1].size, features
        self._sees_images = sees_images(torso.network, seen)

    def load(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Take weights over; nothing is kept of the arrays given, and the memory stays as it is."""
        arrays = _fitting_arrays(self._torso, tensors, "torso")
        super().load(tensors)
        self._torso.load_state_dict(arrays)

    def _before_memory(self, obs: NDArray[Any]) -> Floats:
        inputs = laid_out(obs, self._statistics if self.spec.normalise else None, self._sees_images)
        return _outputs(self._torso, inputs, self._device)


def _fitting_arrays(network: nn.Module, tensors: Mapping[str, NDArray[Any]], part: str) -> dict[str, Tensor]:
    """Return the weights of a network, each of which must be there and fit."""
    shapes = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    return {
        name: torch.from_numpy(fitting(tensors, f"{part}.{name}", shape)) for name, shape in shapes.items()
    }


def _outputs(run: Callable[[Tensor], Tensor], inputs: NDArray[Any], device: str) -> Floats:
    with torch.no_grad():
        said: Floats = run(torch.from_numpy(np.ascontiguousarray(inputs)).to(device)).cpu().numpy()
    return said


def make_torch_policy(spec: Mapping[str, Any], wanted: str) -> TorchPolicy | TorchRecurrentPolicy:
    """Make the policy for a client's process: it leaves the computer's other cores to the game."""
    torch.set_num_threads(1)
    device = policy_device(wanted, wanted != "cpu" and torch.cuda.is_available())
    made = TorchRecurrentPolicy if spec.get("kind") == TORCH_RECURRENT else TorchPolicy
    return made(spec, device)


def policy_device(wanted: str, has_gpu: bool) -> str:
    """Return where a policy computes (`central.inference_device`), as torch names it."""
    if wanted == "cuda" and not has_gpu:
        raise HardwareError(
            "central.inference_device is cuda, and torch finds no GPU here.",
            "Choose auto or cpu (for a stopped run: soulsgui run resume --set "
            "central.inference_device=auto), or install a torch that was built for your GPU.",
        )
    return "cuda" if has_gpu and wanted != "cpu" else "cpu"
