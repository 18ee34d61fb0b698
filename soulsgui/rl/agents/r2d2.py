"""Recurrent deep Q-learning over stored sequences (R2D2, Kapturowski et al. 2019, ICLR)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.rl.agents.dqn import DQNAgent
from soulsgui.rl.buffers.sequences import SequenceBatch
from soulsgui.rl.gradients.r2d2 import SequenceRows


class R2D2Agent(DQNAgent):
    """A `DQNAgent` that remembers, and learns from sequences.

    Double Q-learning with a dueling network over windows of n steps; values are rescaled. A sequence begins
    with the state that was stored when it was played; its first steps, the burn-in, make that a present one,
    in both networks. Other than in the source, reward and action of the step before are no inputs, and
    episodes that were cut off count on from their last observation.

    Args:
        spaces: As of `DQNAgent`; likewise the others. `dqn.agent` is `r2d2` and `network.recurrent` a cell.
        settings: As there.
        seed: As there.
        device: As there.
    """

    def _rows(self, batch: Any) -> Any:
        """Turn a `SequenceBatch` into what the gradient takes."""
        assert isinstance(batch, SequenceBatch)
        return SequenceRows(
            obs=self._over_time(batch.obs),
            # Steps that a sequence does not have say nothing, but need some action that exists.
            action=np.maximum(batch.action - self._actions.start, 0),
            reward=batch.reward,
            terminated=batch.terminated,
            valid=batch.valid,
            learned=batch.learned,
            state=batch.state,
            exact=batch.exact,
            weight=batch.weight,
            next_mask=batch.next_mask,
        )

    def _over_time(self, obs: NDArray[Any]) -> NDArray[Any]:
        """Turn stored observations `[T, B, *shape]` into what the network takes, `[T, B, ...]`."""
        found = self._inputs(obs.reshape(-1, *obs.shape[2:]))
        return found.reshape(*obs.shape[:2], *found.shape[1:])
