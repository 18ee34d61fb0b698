"""Games for the benchmarks: MinAtar (Young & Tian 2019, arXiv 1903.03176) as images of bytes.

`benchmarks.games:MinAtar/Breakout-v1` and its like, with the smallest set of actions. MinAtar brings much
that is only for its own window: `pip install --no-deps minatar` is enough. Channels are last, which the shape
of Seaquest (10×10×10) does not say: `network.channels: last`.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import TransformObservation
from numpy.typing import NDArray

NAMES = ("Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders")


def bytes_of_bits(obs: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Return a map of bits, `[10, 10, C]` bool, as bytes: 0 and 1."""
    return obs.astype(np.uint8)


def make(game: str, **arguments: Any) -> gymnasium.Env[Any, Any]:
    """Make a game.

    Args:
        game: What MinAtar calls it, for instance `space_invaders`.
        arguments: As MinAtar's environments take, for instance `render_mode`.

    Raises:
        ModuleNotFoundError: MinAtar is not installed.
    """
    from minatar.gym import BaseEnv

    env = BaseEnv(game, use_minimal_action_set=True, **arguments)
    return TransformObservation(env, bytes_of_bits, spaces.Box(0, 1, env.observation_space.shape, np.uint8))


for _name in NAMES:
    gymnasium.register(
        f"MinAtar/{_name}-v1",
        entry_point=make,
        kwargs={"game": {"SpaceInvaders": "space_invaders"}.get(_name, _name.lower())},
    )
