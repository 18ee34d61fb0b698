"""What a connector keeps of the actions that it gave out, until the loop hands its steps over."""

from collections import deque
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.environments.actions import ActionSpec, BoxActionSpec
from soulsgui.errors import UsageError
from soulsgui.policies.policy import Policy
from soulsgui.policies.remembered import Floats, Remembered, remembered_by
from soulsgui.sampling.connectors.samples import Sample
from soulsgui.sampling.rollout import Bounds

MOST_KEPT = 4096
"""So many questions to the agent may come between one and the push of its step."""


_MOST = 65_536


class HiddenStateCache:
    """Brings together each step that is pushed with what was remembered before it: by its observation."""

    def __init__(self, within: Bounds, dtype: str) -> None:
        self._within, self._dtype = within, np.dtype(dtype)
        self._acted: deque[tuple[bytes, dict[str, Floats]]] = deque(maxlen=MOST_KEPT)

    def before(self, obs: NDArray[Any], remembered: Remembered) -> None:
        """Note what is remembered before an observation `[1, *shape]` is acted on."""
        self._acted.append((obs.tobytes(), {name: rows[0] for name, rows in remembered.fields.items()}))

    def of(self, sample: Sample) -> Sample:
        """Return a step with what was remembered before it; questions before its own are forgotten."""
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
        """Return a step with its log-probability by what was remembered; nothing is remembered of it."""
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


class ActionCache:
    """Remembers the stored form of actions within bounds, by what the environment takes for them.

    Such an action was squashed, and near its bounds many draws become the same number. Of equal actions the
    newest draw counts; of those that nobody remembers the policy says what might have been drawn.
    """

    def __init__(self, space: ActionSpec) -> None:
        self._space = space
        self._squashed = isinstance(space, BoxActionSpec)
        self._drawn: dict[bytes, NDArray[Any]] = {}

    def given_out(self, action: NDArray[Any], policy: Policy) -> Any:
        """Return what the environment takes for one stored action; it is remembered."""
        taken = policy.to_environment(action[None])[0]
        if not self._squashed:
            return taken.item() if taken.ndim == 0 else taken
        row = self._space.read(taken)
        if len(self._drawn) >= _MOST:
            del self._drawn[next(iter(self._drawn))]
        # At the end, also when it was there.
        self._drawn.pop(row.tobytes(), None)
        self._drawn[row.tobytes()] = action
        return taken

    def stored(self, row: NDArray[Any], policy: Policy) -> NDArray[Any]:
        """Return how an action is stored."""
        if not self._squashed:
            return row
        drawn = self._drawn.get(row.tobytes())
        if drawn is not None:
            return drawn
        stored: NDArray[np.float32] = policy.from_environment(row[None])[0]
        return stored
