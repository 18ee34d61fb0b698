"""What a policy remembered when it acted in a loop written by hand, until the loop hands its step over."""

from collections import deque
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.errors import UsageError
from soulsgui.policies.policy import Policy
from soulsgui.policies.remembered import Floats, Remembered, remembered_by
from soulsgui.sampling.bounds import Bounds
from soulsgui.sampling.samples import Sample

MOST_KEPT = 4096
"""So many questions to the agent may come between one and the push of its step."""


class Recall:
    """Brings together each step that is pushed with what was remembered before it: by its observation.

    Args:
        within: Moves observations onto the bounds of their space, as before they are acted on.
        dtype: Dtype of an observation.
    """

    def __init__(self, within: Bounds, dtype: str) -> None:
        self._within, self._dtype = within, np.dtype(dtype)
        self._acted: deque[tuple[bytes, dict[str, Floats]]] = deque(maxlen=MOST_KEPT)

    def before(self, obs: NDArray[Any], remembered: Remembered) -> None:
        """Note what is remembered before an observation `[1, *shape]` is acted on."""
        self._acted.append((obs.tobytes(), {name: rows[0] for name, rows in remembered.fields.items()}))

    def of(self, sample: Sample) -> Sample:
        """Return a step with what was remembered before it; questions before its own are forgotten.

        Raises:
            UsageError: The agent was not asked about this observation.
        """
        wanted = self._observation(sample).tobytes()
        places = [place for place, (seen, _) in enumerate(self._acted) if seen == wanted]
        if not places:
            raise UsageError(
                f"The agent was not asked about the observation of step {sample.step_id}: what its policy "
                "remembered then is not known.",
                "Policies of this run have a memory: call agent(obs) once for each step of an episode, and "
                "push the same observation.",
            )
        for _ in range(places[0]):
            self._acted.popleft()
        return replace(sample, state=self._acted.popleft()[1])

    def said(self, sample: Sample, policy: Policy) -> Sample:
        """Return a step with its log-probability by what was remembered; nothing is remembered of it.

        Args:
            sample: From `of`.
            policy: With the weights that chose its action.
        """
        if sample.log_prob is not None:
            return sample
        remembered = remembered_by(policy)
        now, remembered.fields = remembered.fields, {name: row[None] for name, row in sample.state.items()}
        mask = None if sample.mask is None else sample.mask[None]
        try:
            logs = policy.log_prob(self._observation(sample), np.array([sample.action]), mask)
        finally:
            remembered.fields = now
        return replace(sample, log_prob=float(logs[0]))

    def _observation(self, sample: Sample) -> NDArray[Any]:
        return self._within(np.asarray(sample.obs, self._dtype)[None])
