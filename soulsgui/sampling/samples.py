"""What a loop written by hand hands over, checked before it is used."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.environments.choices import DiscreteSpec, MultiDiscreteSpec
from soulsgui.environments.finite import LARGEST
from soulsgui.environments.masks import action_left, read_mask
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.errors import EnvironmentCheckError, UsageError
from soulsgui.wire.codec import CodecError, unpack_sample

Stored = Callable[[NDArray[Any]], NDArray[Any]]


@dataclass(frozen=True)
class Sample:
    """One step as `wire.codec.pack_sample` describes it; `log_prob` is None when nobody said it.

    `action` is as it is stored (`environments.actions`).

    `mask` and `next_mask` say which actions are valid at `obs` and `next_obs`, `[A]`; None where the run has
    no masks, and at the end of an episode when nobody said it. `state` is what the policy remembered before
    it, name → `[*shape]`; empty where it remembers nothing.
    """

    obs: NDArray[Any]
    action: NDArray[Any]
    reward: float
    next_obs: NDArray[Any]
    terminated: bool
    truncated: bool
    log_prob: float | None
    model_id: int
    step_id: int
    mask: NDArray[np.bool_] | None = None
    next_mask: NDArray[np.bool_] | None = None
    state: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)


@dataclass(frozen=True)
class EpisodeInfo:
    """What is told of a finished episode."""

    total_return: float
    length: int
    terminated: bool
    seconds: float
    env_index: int


def read_sample(data: bytes, spaces: SpacesSpec, stored: Stored | None = None) -> Sample:
    """Read one step.

    Args:
        data: From `wire.codec.pack_sample`.
        spaces: Spaces of the run.
        stored: Returns how an action is stored, by what the environment took; None where both are the same.

    Raises:
        UsageError: It is no sample of this environment.
    """
    try:
        obs, action, reward, next_obs, terminated, truncated, info, model_id, step_id = unpack_sample(data)
        sample = Sample(
            obs=spaces.observation.read(obs),
            action=spaces.action.read(action),
            reward=float(reward),
            next_obs=spaces.observation.read(next_obs),
            terminated=bool(terminated),
            truncated=bool(truncated),
            log_prob=None if info.get("log_prob") is None else float(np.asarray(info["log_prob"]).item()),
            model_id=int(model_id),
            step_id=int(step_id),
        )
    except (CodecError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"This is no sample: {error}.", "Make it with wire.codec.pack_sample.") from error
    shape = spaces.observation.shape
    if sample.obs.shape != shape or sample.next_obs.shape != shape:
        raise UsageError(f"A sample has observations {sample.obs.shape}, the environment's are {shape}.")
    if not abs(sample.reward) <= LARGEST:
        raise UsageError(
            f"A sample has the reward {sample.reward:g}.",
            f"Rewards should be finite and at most {LARGEST:g} in magnitude: others can't be learned from.",
        )
    if sample.step_id < 0:
        raise UsageError(f"A sample has action {sample.action} at step {sample.step_id}: that can't be.")
    if stored is not None:
        sample = replace(sample, action=stored(sample.action))
    action = spaces.action
    if isinstance(action, DiscreteSpec | MultiDiscreteSpec) and action.masked:
        return _with_masks(sample, info, action)
    return sample


def _with_masks(sample: Sample, info: Mapping[str, Any], action: DiscreteSpec | MultiDiscreteSpec) -> Sample:
    """Add the masks that stand in the info of a sample.

    Raises:
        UsageError: One is missing or misshapen, or the action is not valid.
    """
    masks: dict[str, NDArray[np.bool_] | None] = {}
    for name in ("action_mask", "next_action_mask"):
        said = info.get(name)
        if said is None and name == "next_action_mask" and sample.terminated:
            masks[name] = None
            continue
        if said is None:
            raise UsageError(
                f"A sample has no {name}, and this environment tells which actions are valid.",
                "Put action_mask (at obs) and next_action_mask (at next_obs) into the info of pack_sample.",
            )
        try:
            mask = read_mask(said, sum(action.sizes))
        except (EnvironmentCheckError, ValueError) as error:
            raise UsageError(f"The {name} of a sample can't be read: {error}") from error
        if not action_left(mask[None], action.sizes)[0]:
            if name == "next_action_mask" and (sample.terminated or sample.truncated):
                masks[name] = None
                continue
            raise UsageError(f"The {name} of a sample leaves no action.")
        masks[name] = mask
    taken = masks["action_mask"]
    first = np.zeros(1, np.int64)
    if taken is None or not action.allowed(sample.action[None], taken[None], first)[0]:
        raise UsageError(
            f"A sample has action {sample.action}, which its mask says is not valid.",
            "Give the mask to the agent, too: agent(obs, action_mask).",
        )
    return replace(sample, mask=taken, next_mask=masks["next_action_mask"])


def read_episode_info(data: bytes) -> EpisodeInfo:
    """Read what is told of a finished episode.

    Args:
        data: JSON with `total_return` and `length`, perhaps `terminated`, `seconds` and `env_index`.

    Raises:
        UsageError: It is not that.
    """
    try:
        fields = json.loads(data)
        info = EpisodeInfo(
            total_return=float(fields["total_return"]),
            length=int(fields["length"]),
            terminated=bool(fields.get("terminated", True)),
            seconds=float(fields.get("seconds", 0.0)),
            env_index=int(fields.get("env_index", 0)),
        )
        if not math.isfinite(info.total_return) or info.length < 1:
            raise ValueError(f"total_return {info.total_return}, length {info.length}")
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise UsageError(
            f"This tells of no episode: {error!r}.", 'Give JSON such as {"total_return": 21.0, "length": 21}.'
        ) from error
    return info
