"""Data-parallel learning: a gradient of which several processes take a part each.

    leader ─ what to compute, parameters, batch ─▶ helpers
    leader ◀─ sum of all gradients ─ helpers

Optimiser, random state, statistics and replay memory are the leader's alone: what it learns is what it would
learn alone, but for the rounding of sums. Helpers keep nothing from one step to the next.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from soulsgui.config.sections.algorithms import DQNSettings
from soulsgui.rl.gradients.base import BatchPart, Gradient, Step, evenly
from soulsgui.rl.gradients.dqn import DQNRows
from soulsgui.rl.gradients.ppo import ChunkRows, PPORows, PPOWeights
from soulsgui.rl.gradients.r2d2 import PreparedSequences
from soulsgui.rl.gradients.sac import SACRows
from soulsgui.rl.gradients.td3 import TD3Step
from soulsgui.rl.gradients.vtrace import VTraceRows, VTraceWeights
from soulsgui.rl.optimiser import FlatParameters


class Group(Protocol):
    """Processes that compute together: their number, and the place of this one; the leader has rank 0."""

    rank: int
    size: int

    def tell(self, message: Mapping[str, Any]) -> None:
        """Tell all others; by the leader."""

    def told(self) -> Mapping[str, Any] | None:
        """Wait for what the leader tells; None: there is nothing more to do."""

    def broadcast_(self, tensor: Tensor) -> None:
        """Give all helpers the leader's numbers, in place."""

    def reduce_(self, tensor: Tensor) -> None:
        """Give the leader the sum over all, in place; what helpers have afterwards is of no use."""

    def all_reduce_(self, tensor: Tensor) -> None:
        """Give everybody the sum over all, in place."""


_KINDS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        ChunkRows, DQNRows, PPORows, PreparedSequences, SACRows, VTraceRows,
        DQNSettings, PPOWeights, TD3Step, VTraceWeights,
    )
}  # fmt: skip
"""What batches, and the settings that they are learned from with, are made of; each is told by its name."""


class _Column(NamedTuple):
    """What a column of a batch looks like, which follows what is told: a tensor, or an array."""

    shape: tuple[int, ...]
    dtype: str
    is_array: bool

    @classmethod
    def of(cls, column: Any) -> "_Column | None":
        """Return what a column looks like; None where there is none."""
        if column is None:
            return None
        return cls(
            tuple(column.shape), str(column.dtype).removeprefix("torch."), not isinstance(column, Tensor)
        )


class _Task(NamedTuple):
    """What helpers are told: a batch and how to look at it; without a kind, its values alone are wanted."""

    parts: list[BatchPart]
    columns: list[_Column | None]
    kind: type[Any] | None = None
    settings: Any = None
    follow: bool = False

    def to_plain(self) -> dict[str, Any]:
        """Return it as maps, lists, words and numbers."""
        settings = self.settings
        if isinstance(settings, DQNSettings):
            settings = [DQNSettings.__name__, settings.model_dump(mode="json")]
        elif isinstance(settings, tuple):
            settings = [type(settings).__name__, list(settings)]
        edges = [[part.samples, part.rows] for part in self.parts]
        return {
            "parts": [[[one.start, one.stop] for one in pair] for pair in edges],
            "columns": [column and list(column) for column in self.columns],
            "kind": self.kind and self.kind.__name__,
            "settings": settings,
            "follow": self.follow,
        }

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> "_Task":
        """Return what `to_plain` made."""
        settings = plain["settings"]
        if isinstance(settings, list):
            name, values = settings
            kind = _KINDS[name]
            settings = kind.model_validate(values) if kind is DQNSettings else kind(*values)
        return cls(
            [BatchPart(*(slice(*edges) for edges in pair)) for pair in plain["parts"]],
            [column and _Column(tuple(column[0]), *column[1:]) for column in plain["columns"]],
            _KINDS[plain["kind"]] if plain["kind"] else None,
            settings,
            plain["follow"],
        )


class SharedGradient:
    """Stands for a gradient; each process of a group computes it at a part of the batch.

    Every process has one, made of the same networks. The leader calls it, the others `serve`.

    Args:
        learned: Holds the parameters that the gradient is of.
        followed: Hold other parameters that it looks at: target networks.
        networks: All networks; their buffers (noise, for instance) are the leader's too.
    """

    compiled_loss = None  # parts of a batch are of other shapes

    def __init__(
        self,
        inner: Gradient[Any, Any],
        group: Group,
        learned: FlatParameters,
        followed: Sequence[FlatParameters],
        networks: Sequence[nn.Module],
    ) -> None:
        self._inner, self._group, self._learned, self._followed = inner, group, learned, followed
        buffers = dict.fromkeys(buffer for network in networks for buffer in network.buffers())
        self._buffers = [buffer for buffer in buffers if buffer.is_floating_point()]
        self._sent = -1
        self._has_part = True
        inner.add_up = self._add_up

    def __call__(self, rows: Any, settings: Any) -> Step:
        """Write the gradient at `rows` into the leader's flat gradient, over what stood there."""
        prepared = self._inner.prepare(rows, settings)
        changes = sum(flat.changes for flat in self._followed)
        parts, columns = self._inner.cut(prepared, self._group.size), [_Column.of(one) for one in prepared]
        task = _Task(parts, columns, type(prepared), settings, changes != self._sent)
        self._sent = changes
        self._send(task, prepared)
        return self._take_part(prepared, task)

    def values(self, obs: Tensor) -> NDArray[np.float32]:
        """Return the values `[B]` of network inputs `[B, size]`, as `PPOGradient.values`."""
        task = _Task(evenly(len(obs), self._group.size), [_Column.of(obs)])
        self._send(task, (obs,))
        values: NDArray[np.float32] = self._take_values(obs, task).cpu().numpy()
        return values

    def serve(self) -> None:
        """Help the leader until it needs no more help."""
        while (plain := self._group.told()) is not None:
            task = _Task.of(plain)
            self._share_parameters(task.follow)
            columns = [self._receive(column) for column in task.columns]
            if task.kind is None:
                self._take_values(columns[0], task)
            else:
                self._take_part(task.kind(*columns), task)

    def _take_part(self, prepared: Any, task: _Task) -> Step:
        """Compute what is ours, and add up."""
        rank, gradient = self._group.rank, self._learned.gradient
        self._has_part = rank < len(task.parts)
        part = task.parts[rank if self._has_part else 0]  # who has none computes one that does not count
        ours = self._inner.part(prepared, part)
        step = self._inner.at(ours, task.settings)
        share = self._inner.weight(ours) / self._inner.weight(prepared) if self._has_part else 0.0
        samples = step.samples.new_zeros((self._inner.count(prepared), *step.samples.shape[1:]))
        if self._has_part:
            samples[part.samples] = step.samples
        gradient.mul_(share)
        self._group.reduce_(gradient)
        told = torch.cat((step.figures * share, samples.flatten()))
        self._group.reduce_(told)
        count = len(step.figures)
        return Step(told[:count], told[count:].view(samples.shape))

    def _take_values(self, obs: Any, task: _Task) -> Tensor:
        values = torch.zeros(len(obs), device=self._learned.parameter.device)
        if self._group.rank < len(task.parts):
            here = task.parts[self._group.rank].samples
            ours: NDArray[np.float32] = self._inner.values(obs[here])  # type: ignore[attr-defined]
            values[here] = torch.from_numpy(ours).to(values.device)
        self._group.reduce_(values)
        return values

    def _add_up(self, tensor: Tensor) -> Tensor:
        total = tensor.clone() if self._has_part else torch.zeros_like(tensor)
        self._group.all_reduce_(total)
        return total

    def _send(self, task: _Task, columns: Sequence[Any]) -> None:
        """Tell the others what to do, and with what."""
        self._group.tell(task.to_plain())
        self._share_parameters(task.follow)
        for column in columns:
            if column is not None and len(column):
                sent = column if isinstance(column, Tensor) else torch.from_numpy(np.array(column))
                self._group.broadcast_(sent.contiguous())

    def _share_parameters(self, follow: bool) -> None:
        """Give everybody the leader's parameters and buffers; those that are followed where told."""
        for flat in (self._learned, *(self._followed if follow else ())):
            self._group.broadcast_(flat.parameter.data)
        if self._buffers:
            together = torch.cat([buffer.flatten() for buffer in self._buffers])
            self._group.broadcast_(together)
            start = 0
            for buffer in self._buffers:
                buffer.copy_(together[start : start + buffer.numel()].view(buffer.shape))
                start += buffer.numel()

    def _receive(self, column: _Column | None) -> Any:
        if column is None:
            return None
        device = "cpu" if column.is_array else self._learned.parameter.device
        tensor = torch.empty(column.shape, dtype=getattr(torch, column.dtype), device=device)
        if len(tensor):
            self._group.broadcast_(tensor)
        return tensor.numpy() if column.is_array else tensor
