"""The steps that a loop written by hand hands over: checked, then made segments."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.environments.choices import DiscreteSpec, MultiDiscreteSpec, action_left, read_mask
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.environments.step import LARGEST
from soulsgui.errors import EnvironmentCheckError, UsageError
from soulsgui.experience.segments import TERMINATED, TRUNCATED, Segments
from soulsgui.sampling.rollout import Bounds
from soulsgui.sampling.segments import steps_that_fit
from soulsgui.wire.codec import CodecError, WeightsHeader, unpack_sample
from soulsgui.wire.messages.chunk import digest_number

Stored = Callable[[NDArray[Any]], NDArray[Any]]


@dataclass(frozen=True)
class Sample:
    """One step as `wire.codec.pack_sample` describes it; `log_prob` is None where it was left out.

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
    """A finished episode, as a loop reports it."""

    total_return: float
    length: int
    terminated: bool
    seconds: float
    env_index: int


def read_sample(data: bytes, spaces: SpacesSpec, stored: Stored | None = None) -> Sample:
    """Read one step; `stored` says how an action is stored, by what the environment took."""
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
        raise UsageError(f"This is not a sample: {error}.", "Make it with wire.codec.pack_sample.") from error
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
    """Add the masks that stand in the info of a sample."""
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
    """Read the report of a finished episode."""
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


LogProb = Callable[[NDArray[Any], NDArray[Any], NDArray[np.bool_] | None], NDArray[np.float32]]
"""Returns the log-probability `[N]` of stored actions `[N, ...]` at observations `[N, *shape]`.

The last argument says which actions are valid `[N, A]`; None: all are.
"""


class Assembler:
    """Makes segments of one environment's steps, at most `capacity` at once, for one thread."""

    def __init__(
        self, spaces: SpacesSpec, segment_length: int, state: Mapping[str, tuple[int, ...]] | None = None
    ) -> None:
        self._state = tuple(state or {})
        self._action_dtype = np.dtype(spaces.action.dtype)
        self.capacity = min(segment_length, steps_that_fit(spaces, state or {}))
        self._masked_actions = spaces.masked_actions
        self._dtype = np.dtype(spaces.observation.dtype)
        self._within = Bounds(spaces.observation)
        self._episode = 0
        self._next_step = 0

    def assemble(self, samples: Sequence[Sample], header: WeightsHeader, log_prob: LogProb) -> Segments:
        """Return samples, in the order of their steps and chosen by the weights of `header`, as segments."""
        starts, episodes = self._pieces(samples)
        stops = [*starts[1:], len(samples)]
        pieces = list(zip(starts, stops, strict=True))
        lasts = [samples[stop - 1] for stop in stops]
        flags = [last.terminated * TERMINATED + last.truncated * TRUNCATED for last in lasts]
        rows = []
        for start, stop in pieces:
            rows += [sample.obs for sample in samples[start:stop]]
            rows.append(samples[stop - 1].next_obs)
        obs = self._within(np.array(rows, self._dtype))
        mask = self._masks(samples, pieces) if self._masked_actions else None
        length = np.diff([*starts, len(samples)]).astype(np.int32)
        action = np.array([sample.action for sample in samples], self._action_dtype)
        count = len(pieces)
        said = np.array([np.nan if one.log_prob is None else one.log_prob for one in samples], np.float32)
        unsaid = np.array([sample.log_prob is None for sample in samples])
        if unsaid.any():
            acted_on = np.arange(len(samples)) + np.repeat(np.arange(count), length)
            asked = log_prob(obs[acted_on], action, None if mask is None else mask[acted_on])
            said = np.where(unsaid, asked, said)
        return Segments(
            env_index=np.zeros(count, np.int32),
            episode=np.array(episodes, np.int64),
            first_step=np.array([samples[start].step_id for start in starts], np.int64),
            length=length,
            model_id_first=np.full(count, header.model_id, np.int64),
            model_id_last=np.full(count, header.model_id, np.int64),
            digest=np.full(count, digest_number(header.digest), np.uint64),
            flags=np.array(flags, np.uint8),
            obs=obs,
            action=action,
            reward=np.array([sample.reward for sample in samples], np.float32),
            log_prob=said,
            action_mask=mask,
            state={name: np.stack([samples[start].state[name] for start in starts]) for name in self._state},
        )

    def _masks(self, samples: Sequence[Sample], pieces: list[tuple[int, int]]) -> NDArray[np.bool_]:
        """Return the valid actions at all observations of the pieces, `[N + S, A]`."""
        everything = np.ones(self._masked_actions, np.bool_)
        rows = []
        for start, stop in pieces:
            masks = [sample.mask for sample in samples[start:stop]]
            masks.append(samples[stop - 1].next_mask)
            rows += [everything if mask is None else mask for mask in masks]
        return np.array(rows)

    def _pieces(self, samples: Sequence[Sample]) -> tuple[list[int], list[int]]:
        """Return where each contiguous piece of an episode begins, and the number of that episode."""
        starts: list[int] = []
        episodes: list[int] = []
        begins = True
        for index, sample in enumerate(samples):
            if sample.step_id != self._next_step:
                begins = True
                # One that was there already begins another episode: this one was given up.
                self._episode += sample.step_id < self._next_step
            if begins:
                starts.append(index)
                episodes.append(self._episode)
            begins = sample.terminated or sample.truncated
            self._episode += begins
            self._next_step = 0 if begins else sample.step_id + 1
        return starts, episodes
