"""From stored observations to what the networks of an agent take: encoded, normalised, laid out for torch."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.config.sections.network import Channels
from soulsgui.environments.observations import ObservationSpec, with_channels
from soulsgui.experience.frame_stacks import IMAGE, NUMBERS, field_of
from soulsgui.policies.normalise import RunningNormaliser, normalise

Statistics = Mapping[str, NDArray[Any]]


def laid_out(seen: NDArray[Any], statistics: Statistics | None, as_bytes: bool) -> NDArray[Any]:
    """Return what networks see as they take it: `[N, *shape]`, float32 or, where images are taken so, bytes.

    Records `[N]` of an image and numbers become rows of bytes `[N, image and 4 · numbers]`, so that both go
    through batches, memories and devices as one array. Without statistics (`RunningNormaliser.frozen`)
    numbers stay as they are.
    """
    if seen.dtype.names:
        numbers = seen[NUMBERS] if statistics is None else normalise(seen[NUMBERS], statistics)
        image = np.ascontiguousarray(seen[IMAGE]).reshape(len(seen), -1)
        row = np.ascontiguousarray(numbers, np.float32).view(np.uint8).reshape(len(seen), -1)
        return np.concatenate((image, row), axis=1)
    if statistics is not None:
        return normalise(seen, statistics).reshape(seen.shape)
    return seen if as_bytes else seen.astype(np.float32)


class Inputs:
    """What the networks of one agent take of observations.

    Args:
        observation: What is stored; `seen` is the space of what the networks see of it.
        images: The networks see images as such, and scale them themselves.
        flat: They take all else as one row.
        normalises: Numbers are to be normalised by the statistics of those seen, where there are any.
        clip: Largest absolute value of a normalised number.
    """

    def __init__(
        self,
        observation: ObservationSpec,
        images: bool,
        flat: bool,
        normalises: bool,
        clip: float,
        channels: Channels = "auto",
    ) -> None:
        self.images = images
        seen = observation.seen(images)
        self.seen = seen if channels == "auto" else with_channels(seen, channels)
        self._observation, self._flat = observation, flat
        _, numbers = self.seen.fields[-1]
        has_numbers = len(self.seen.fields) > 1 or not images
        self.normalises = normalises and has_numbers
        fixed = observation.fixed(images) if has_numbers else None
        self.normaliser = RunningNormaliser(numbers.size, clip, fixed)

    def observe(self, obs: Any) -> None:
        """Take the numbers of stored observations `[N, *shape]` into the statistics, if they are wanted."""
        if self.normalises:
            self.normaliser.update(field_of(self._observation.encode(obs, self.images), NUMBERS))

    def of(self, obs: Any, statistics: Statistics) -> NDArray[Any]:
        """Return what networks take of stored observations: `[N, *shape]` (`laid_out`), or rows if `flat`."""
        seen = self._observation.encode(obs, self.images)
        found = laid_out(seen, statistics if self.normalises else None, self.images)
        return found.reshape(len(found), -1) if self._flat else found

    def nothing(self) -> NDArray[Any]:
        """Return one stored observation of zeros, `[1, *shape]`, or what is nearest to them in the space."""
        found = np.zeros((1, *self._observation.shape), self._observation.dtype)
        for name, box in self._observation.fields:
            values, (low, high) = field_of(found, name), box.limits
            values[:] = np.clip(values, low, high)
        return found
