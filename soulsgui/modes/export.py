"""Checkpoints as files for other programs: the policy as an ONNX graph, or its weights as safetensors."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from soulsgui.environments.observations import observation_from_json
from soulsgui.errors import CheckpointError, SoulsGuiError
from soulsgui.policies.normalise import inverse_std
from soulsgui.policies.policy import ACTOR, ENCODING, MLP, Policy, make_policy
from soulsgui.policies.specs import TORCH
from soulsgui.policies.value_based import CATEGORICAL, IMPLICIT_QUANTILE
from soulsgui.sampling.torch_policy import TorchPolicy
from soulsgui.training.checkpoint import Checkpoint, read_checkpoint

Tell = Callable[[str, float], object]
Tensors = Mapping[str, NDArray[Any]]

_INPUT, _OUTPUT = "observation", "outputs"
_CHECKED = 64  # observations that graph and policy are compared at
_TOLERANCE = 1e-4
_IN_SAFETENSORS = "Or write its weights: --format safetensors"


def export_safetensors(path: Path, target: Path, tell: Tell) -> str:
    """Write the weights of a checkpoint's policy, normaliser and all; what they are for stands in the header.

    Returns:
        How it was checked, in words.
    """
    tell("reading the checkpoint", 0.0)
    checkpoint = read_checkpoint(path)
    tensors = {name: np.ascontiguousarray(array) for name, array in checkpoint.weights.items()}
    safetensors.numpy.save_file(tensors, target, _about(checkpoint))
    tell("comparing it", 0.8)
    written = safetensors.numpy.load_file(target)
    if written.keys() != tensors.keys() or any(
        not np.array_equal(written[name], array) for name, array in tensors.items()
    ):
        raise SoulsGuiError("What was written differs from what was read.", "Check the disk, and try again.")
    return f"{len(tensors)} tensors, read back without differences"


def export_onnx(path: Path, target: Path, tell: Tell) -> str:
    """Write the policy of a checkpoint as an ONNX graph, and compare both with onnxruntime.

    It takes observations `[batch, *shape]` as the environment gives them (where those are encoded for the
    network, the encoded ones), and gives what the network says `[batch, outputs]`: logits or values of the
    actions, or the numbers of the head that its description, in the metadata, tells.

    Returns:
        How it was checked, in words.

    Raises:
        CheckpointError: Its policy has a memory, or sees several things at once.
        SoulsGuiError: Graph and policy differ, or a package is missing.
    """
    try:
        import onnx
        import onnxruntime
        import onnxscript  # noqa: F401  torch needs it to export
    except ImportError as error:
        raise SoulsGuiError(
            f"For ONNX the package {error.name} is missing.", 'Install it: pip install "soulsgui[onnx]"'
        ) from error
    tell("reading the checkpoint", 0.0)
    checkpoint = read_checkpoint(path)
    spec = {name: value for name, value in checkpoint.info.policy.items() if name != ENCODING}
    policy = make_policy(spec)
    policy.load(checkpoint.weights)
    observations = _examples(checkpoint)
    tell("writing the graph", 0.3)
    batch = torch.export.Dim("batch", min=1)
    program = torch.onnx.export(
        _network(spec, checkpoint.weights, policy).eval(),
        (torch.from_numpy(observations),),
        input_names=[_INPUT],
        output_names=[_OUTPUT],
        dynamic_shapes=({0: batch},),
        dynamo=True,
        verbose=False,
    )
    assert program is not None
    model = program.model_proto
    for name, value in _about(checkpoint).items():
        model.metadata_props.add(key=name, value=value)
    onnx.checker.check_model(model)
    onnx.save(model, target)
    tell("comparing it with the policy", 0.8)
    session = onnxruntime.InferenceSession(str(target), providers=["CPUExecutionProvider"])
    apart = 0.0
    for some in (observations, observations[:1]):
        said, wanted = session.run([_OUTPUT], {_INPUT: some})[0], policy.outputs(some)
        if said.shape != wanted.shape or not np.allclose(said, wanted, _TOLERANCE, _TOLERANCE):
            raise SoulsGuiError(
                "The graph gives different results than the policy, so it was not exported.", _IN_SAFETENSORS
            )
        apart = max(apart, float(np.abs(said - wanted).max()))
    return (
        f"onnxruntime gives the results of the policy for {_CHECKED} observations (at most {apart:.1g} apart)"
    )


FORMATS = {"onnx": export_onnx, "safetensors": export_safetensors}
"""How a checkpoint is written, by the name of the format."""


def _about(checkpoint: Checkpoint) -> dict[str, str]:
    told = checkpoint.info.model_dump(mode="json", exclude={"files", "policy", "spaces"})
    words = {name: value if isinstance(value, str) else json.dumps(value) for name, value in told.items()}
    return words | {name: json.dumps(getattr(checkpoint.info, name)) for name in ("policy", "spaces")}


def _examples(checkpoint: Checkpoint) -> NDArray[Any]:
    """Return observations as the network takes them, drawn at random."""
    info, rng = checkpoint.info, np.random.default_rng(0)
    space = observation_from_json(info.spaces["observation"])
    encoding = info.policy.get(ENCODING)
    seen = space if encoding is None else space.seen(bool(encoding["images"]))
    (_, box), *others = seen.fields
    if others:
        raise CheckpointError(
            f"{info.env_id} has both images and numbers as observations, which the ONNX export does not "
            "support.",
            _IN_SAFETENSORS,
        )
    shape, (low, high) = (_CHECKED, *box.shape), box.limits
    if np.dtype(box.dtype).kind in "ui":
        return rng.integers(low, high, shape, box.dtype, endpoint=True)
    return np.clip(rng.standard_normal(shape), low, high).astype(np.float32)


def _network(spec: Mapping[str, Any], tensors: Tensors, policy: Policy) -> nn.Module:
    """Return what `policy.outputs` computes as one module."""
    kind = spec["kind"]
    if kind == ACTOR:
        network = spec["network"]
        return _network(network, tensors, make_policy(network))
    if kind == MLP:
        return nn.Sequential(*_perceptron(spec, tensors))
    if kind == CATEGORICAL:
        return nn.Sequential(*_perceptron(spec["network"], tensors), _Means(spec["support"]))
    if kind == IMPLICIT_QUANTILE:
        activation = _ACTIVATIONS[spec["network"]["activation"]]()
        quantiles = _Quantiles(spec, tensors, activation)
        return nn.Sequential(*_perceptron(spec["network"], tensors), activation, quantiles)
    if kind == TORCH:
        torch_policy = TorchPolicy(spec)
        torch_policy.load(tensors)
        before = [_Normalised(tensors)] if spec["normalise"] else []
        return nn.Sequential(*before, torch_policy.module)
    raise CheckpointError("A policy with a memory can't be written as ONNX.", _IN_SAFETENSORS)


_ACTIVATIONS = {"tanh": nn.Tanh, "relu": nn.ReLU}


def _perceptron(spec: Mapping[str, Any], tensors: Tensors) -> list[nn.Module]:
    parts: list[nn.Module] = [nn.Flatten(), *([_Normalised(tensors)] if spec["normalise"] else [])]
    for layer in _layers("policy", tensors):
        parts += [layer, _ACTIVATIONS[spec["activation"]]()]
    return parts[:-1]


def _layers(name: str, tensors: Tensors) -> list[nn.Linear]:
    count = sum(one.startswith(f"{name}.") and one.endswith(".weight") for one in tensors)
    return [_linear(tensors[f"{name}.{n}.weight"], tensors[f"{name}.{n}.bias"]) for n in range(count)]


def _linear(weight: NDArray[Any], bias: NDArray[Any]) -> nn.Linear:
    made = nn.Linear(weight.shape[1], weight.shape[0])
    made.load_state_dict({"weight": torch.tensor(weight), "bias": torch.tensor(bias)})
    return made


class _Normalised(nn.Module):
    """Shifts, scales and clips numbers, as `policies.normalise`."""

    def __init__(self, tensors: Tensors) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(tensors["normaliser.mean"]))
        scale = inverse_std(tensors["normaliser.var"], tensors["normaliser.eps"])
        self.register_buffer("scale", torch.tensor(scale))
        self._clip = float(tensors["normaliser.clip"])

    def forward(self, obs: Tensor) -> Tensor:
        numbers = (obs.flatten(1) - self.get_buffer("mean")) * self.get_buffer("scale")
        return numbers.clamp(-self._clip, self._clip).reshape(obs.shape)


class _Means(nn.Module):
    """From the logits of atoms to their means (C51)."""

    def __init__(self, support: Sequence[float]) -> None:
        super().__init__()
        lowest, highest, count = support
        self.register_buffer("atoms", torch.linspace(lowest, highest, int(count)))

    def forward(self, logits: Tensor) -> Tensor:
        atoms = self.get_buffer("atoms")
        return logits.reshape(-1, logits.shape[1] // len(atoms), len(atoms)).softmax(2) @ atoms


class _Quantiles(nn.Module):
    """From features to means over quantiles at even levels (IQN)."""

    def __init__(self, spec: Mapping[str, Any], tensors: Tensors, activation: nn.Module) -> None:
        super().__init__()
        levels = (torch.arange(spec["levels"]) + 0.5) / spec["levels"]
        waves = torch.cos(levels[:, None] * torch.pi * torch.arange(spec["cosines"]))
        embedding = _linear(tensors["embedding.weight"], tensors["embedding.bias"])
        self.register_buffer("embedded", embedding(waves).relu().detach())
        *hidden, self.last = _layers("head", tensors)
        self.hidden = nn.Sequential(*(part for one in hidden for part in (one, activation)))

    def forward(self, features: Tensor) -> Tensor:
        mixed = self.hidden(features[:, None] * self.get_buffer("embedded")).mean(1)
        values: Tensor = self.last(mixed)
        return values
