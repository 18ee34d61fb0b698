"""Whole networks as the configuration names them: a torso by name or import path, and a last layer."""

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from soulsgui.config.schema import Settings
from soulsgui.environments.images import LEAST_SIDES, layout_of
from soulsgui.environments.imports import import_named
from soulsgui.environments.observations import ObservationSpec, PartsSpec, channels_of, largest_of
from soulsgui.errors import NotAgreedError, UsageError, error_words
from soulsgui.policies.specs import TorsoSpec
from soulsgui.rl.inputs import Inputs
from soulsgui.rl.networks.mlp import Initialise, fan_in_, linear, named_layers, orthogonal_hidden_
from soulsgui.rl.networks.torsos import (
    JoinedTorso,
    Torso,
    impala_resnet,
    mlp_layer_norm,
    nature_cnn,
    small_cnn,
    truncated_normal_,
)

MLP = "mlp"
"""The network that clients run without torch; `networks.mlp` builds it."""

_Builder = Callable[..., Torso]


NAMED: dict[str, tuple[_Builder, Initialise]] = {
    "mlp_layer_norm": (mlp_layer_norm, orthogonal_hidden_),
    "nature_cnn": (nature_cnn, orthogonal_hidden_),
    "small_cnn": (small_cnn, orthogonal_hidden_),
    "impala_resnet": (impala_resnet, truncated_normal_),
}
"""Torso and initial weights of each: orthogonal ones as for the MLP of on-policy agents, with which PPO got
its Atari results from the Nature network, too (Huang et al. 2022, "The 37 implementation details"); IMPALA's.
"""

IMAGE_NETWORKS = tuple(LEAST_SIDES)


def sees_images(name: str, observation: ObservationSpec) -> bool:
    """Whether a network takes images as bytes and scales them itself: no statistics normalise those."""
    if name in IMAGE_NETWORKS:
        return True
    image = observation.fields[0][1]
    return ":" in name and image.dtype == "uint8" and len(image.shape) == 3


def inputs_of(observation: ObservationSpec, settings: Settings) -> Inputs:
    """Return what the networks of an agent take of observations."""
    name, normalize = settings.network.name, settings.normalize
    images = sees_images(name, observation)
    channels = settings.network.channels if images else "auto"
    return Inputs(observation, images, name == MLP, normalize.observations, normalize.clip, channels)


def torso_spec(name: str, seen: ObservationSpec) -> TorsoSpec | None:
    """Return what a client must know of what is before a memory; None: it is a perceptron."""
    return None if name == MLP else TorsoSpec(name, seen.dtype, largest_of(seen), channels_of(seen))


class NamedNetwork(nn.Module):
    """A torso that gives so many features, and a last layer of orthogonal weights of a scale."""

    def __init__(
        self, torso: nn.Module, features: int, outputs: int, output_scale: float, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.torso = torso
        self.head = linear(features, outputs, output_scale, generator)

    def forward(self, obs: Tensor) -> Tensor:
        """Return `[B, outputs]` for observations `[B, *shape]`."""
        outputs: Tensor = self.head(self.torso(obs))
        return outputs


def named_torso(
    name: str,
    observation: ObservationSpec,
    hidden_sizes: Sequence[int],
    activation: str,
    generator: torch.Generator,
    by_fan_in: bool = False,
) -> tuple[nn.Module, int]:
    """Build a torso that is no plain MLP.

    Layers that differ between training and use (dropout, batch normalisation) work as in use.

    Args:
        name: A key of `NAMED`, or `module:Class` of an own torso: called with the shape of an observation,
            the hidden sizes and the activation, it makes a module from `[B, *shape]` to `[B, features]` with
            an attribute `features`. Its initial weights are its own.
        observation: Space of what it sees; of an image with numbers, the image is what the torso sees.
        by_fan_in: Draw weights by fan-in where they would be orthogonal, as for deep Q-learning.

    Returns:
        The torso and its number of features.

    Raises:
        UsageError: There is no such network, or it can't see such observations.
    """
    torso: nn.Module
    if isinstance(observation, PartsSpec):
        (_, image), (_, numbers) = observation.fields
        torso, features = named_torso(name, image, hidden_sizes, activation, generator, by_fan_in)
        joined = JoinedTorso(torso, features, image.shape, numbers.size, hidden_sizes, activation)
        if joined.layers is not None:
            (fan_in_ if by_fan_in else orthogonal_hidden_)(joined.layers, generator)
        return joined, joined.features
    if name in NAMED:
        build, initialise = NAMED[name]
        if name in IMAGE_NETWORKS:
            layout_of(observation, name)
            torso = build(observation.shape, hidden_sizes, activation, observation.channels)
            torso.scale = 1.0 / float(observation.limits[1].max())  # 255 of screens, 1 of maps of bits
        else:
            torso = build(observation.shape, hidden_sizes, activation)
        (fan_in_ if by_fan_in and initialise is orthogonal_hidden_ else initialise)(torso, generator)
        return torso, _features(torso, name, observation)
    torso = _own_torso(name, observation, hidden_sizes, activation, generator)
    features = _features(torso, name, observation)
    _try_out(torso, name, observation)
    return torso, features


def build_network(
    name: str,
    observation: ObservationSpec,
    hidden_sizes: Sequence[int],
    activation: str,
    outputs: int,
    output_scale: float,
    generator: torch.Generator,
) -> NamedNetwork:
    """Build a network that is no plain MLP: a torso by name (`named_torso`) and a last layer."""
    torso, features = named_torso(name, observation, hidden_sizes, activation, generator)
    return NamedNetwork(torso, features, outputs, output_scale, generator).eval()


def sharing(policy: nn.Module, output_scale: float, generator: torch.Generator) -> nn.Module:
    """Build a value network that has all layers of a policy's but its last one."""
    if isinstance(policy, nn.Sequential):
        *hidden, last = policy
        assert isinstance(last, nn.Linear)
        return nn.Sequential(*hidden, linear(last.in_features, 1, output_scale, generator))
    assert isinstance(policy, NamedNetwork)
    return NamedNetwork(policy.torso, policy.head.in_features, 1, output_scale, generator).eval()


def named_tensors(network: nn.Module, prefix: str) -> Iterator[tuple[str, Tensor]]:
    """Name every tensor of a network: those of an MLP by layer (`named_layers`), others by their place."""
    if isinstance(network, nn.Sequential):
        yield from named_layers(network, prefix)
    else:
        for name, tensor in network.state_dict().items():
            yield f"{prefix}.{name}", tensor


def _own_torso(
    path: str,
    observation: ObservationSpec,
    hidden_sizes: Sequence[int],
    activation: str,
    generator: torch.Generator,
) -> nn.Module:
    try:
        kind: Any = getattr(import_named(path), path.rpartition(":")[2])
    except NotAgreedError:
        raise
    except Exception as error:  # whatever somebody's module raises
        raise UsageError(
            f"There is no network “{path}”: {error_words(error)}.",
            f"Choose one of {', '.join((MLP, *NAMED))}, or `module:Class` of a module that can be imported "
            "here: on the server and on every client.",
        ) from error
    if not (isinstance(kind, type) and issubclass(kind, nn.Module)):
        raise UsageError(f"{path} is not a subclass of torch.nn.Module.")
    seed = int(torch.randint(2**31, (1,), generator=generator))
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            torso: nn.Module = kind(tuple(observation.shape), tuple(hidden_sizes), activation)
    except Exception as error:  # whatever somebody's class raises
        raise UsageError(
            f"{path} could not be made for observations {observation.shape}: {error!r}.",
            "It is called with the shape of an observation, the hidden sizes and the activation.",
        ) from error
    return torso


def _two_observations(name: str, observation: ObservationSpec) -> Tensor:
    dtype = torch.uint8 if sees_images(name, observation) else torch.float32
    return torch.ones(2, *observation.shape, dtype=dtype)


def _features(torso: nn.Module, name: str, observation: ObservationSpec) -> int:
    """Return the number of features, after a look at what really comes out."""
    features = getattr(torso, "features", None)
    try:
        with torch.no_grad():
            found = tuple(torso.eval()(_two_observations(name, observation)).shape)
    except Exception as error:  # whatever somebody's class raises
        raise UsageError(
            f"{name} can't see observations {observation.shape}: {error!r}.",
            "It takes [B, *shape], bytes for images and otherwise float32.",
        ) from error
    if not isinstance(features, int) or found != (2, features):
        raise UsageError(
            f"{name} has `features` {features!r}, and gives {found} for 2 observations.",
            "It should return [B, features], and have their number in an attribute `features`.",
        )
    return features


def _try_out(torso: nn.Module, name: str, observation: ObservationSpec) -> None:
    """Do with somebody's torso what training will do with it; what fails is refused before anything starts.

    Raises:
        UsageError: It can't be copied, learned or sent, or it gives no numbers to learn from.
    """
    for place, tensor in torso.state_dict().items():
        if (tensor.is_floating_point() or tensor.is_complex()) and tensor.dtype != torch.float32:
            raise UsageError(
                f"{name} has {place} of {tensor.dtype}.",
                "Parameters and buffers should be float32: convert what needs another dtype in `forward`.",
            )
        if not torch.isfinite(tensor).all():
            raise UsageError(
                f"{name} has numbers in {place} that are not finite: they look the same as in a training "
                "that has diverged.",
                "Register such a buffer with persistent=False: it is then created on each computer, and "
                "never sent.",
            )
    shown = _two_observations(name, observation)
    untouched = shown.clone()
    try:
        trial = copy.deepcopy(torso)  # as target networks are made; its gradients are nobody else's
        with torch.enable_grad():
            found: Tensor = trial(shown)
            again = trial(untouched.clone()).detach()
            if found.requires_grad:
                found.sum().backward()  # type: ignore[no-untyped-call]
    except Exception as error:  # whatever somebody's class raises
        raise UsageError(
            f"{name} can't be copied and learned from observations {observation.shape}: {error!r}.",
            "It should work with copy.deepcopy, and give gradients to autograd.",
        ) from error
    if found.dtype != torch.float32 or not torch.isfinite(found).all():
        raise UsageError(
            f"{name} gives {found.dtype}, or numbers that are not finite, for observations of ones.",
            "It should give finite numbers of float32.",
        )
    if not torch.equal(shown, untouched):
        raise UsageError(
            f"{name} changes the observations that it is given.", "Work on a copy of them in `forward`."
        )
    if not torch.allclose(found.detach(), again):
        raise UsageError(
            f"{name} gives different results for the same observations, so that it can't be checked.",
            "Don't add noise while `training` is False.",
        )
