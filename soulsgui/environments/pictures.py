"""What an environment shows: rendered as pictures, where it can be."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.envs.registration import load_env_creator
from numpy.typing import NDArray

from soulsgui.environments.make import Env, Vector, find_spec
from soulsgui.errors import EnvironmentCheckError

PICTURES = "rgb_array"  # how Gymnasium calls rendering as pictures

Picture = NDArray[np.uint8]
"""`[height, width, 3]`."""

_LARGEST_SIDE = 4096  # pixels


def check_shown(env_id: str) -> None:
    """Make sure that an environment can be shown as pictures, as far as its class tells.

    Raises:
        EnvironmentCheckError: It can't, or as `find_spec`.
    """
    entry = find_spec(env_id).entry_point
    creator = load_env_creator(entry) if isinstance(entry, str) else entry
    metadata = getattr(creator, "metadata", None)
    modes = metadata.get("render_modes", ()) if isinstance(metadata, Mapping) else (PICTURES,)
    if PICTURES not in modes:
        told = f"It renders: {', '.join(map(str, modes))}. " if modes else ""
        raise EnvironmentCheckError(
            f"{env_id} can't be shown: it does not render as pictures (render_mode {PICTURES}).",
            f"{told}Play it without frames and video, or let its class name {PICTURES} in its metadata.",
        )


def shown_kwargs(env_id: str, kwargs: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the arguments that an environment is made with to be shown; None where it can't be."""
    try:
        check_shown(env_id)
    except EnvironmentCheckError:
        return None
    shown: dict[str, Any] = {"render_mode": PICTURES, **kwargs}
    return shown if shown["render_mode"] == PICTURES else None


def rendered(env: Env) -> Picture:
    """Return a picture of an environment; TypeError or ValueError where it renders none that can be used."""
    return _checked(env.render())


def first_rendered(vector: Vector) -> Picture:
    """Return a picture of the first of environments that step together; raises as `rendered`."""
    envs: Any = getattr(vector, "envs", None)
    if envs:
        return rendered(envs[0])
    pictures = vector.render()  # those with a vector form of their own render all of them
    return _checked(pictures[0] if pictures else None)


def made_small(picture: Picture, longest: int) -> Picture:
    """Return a picture with the mean of so many pixels in place of each that no side is longer."""
    height, width, _ = picture.shape
    by = -(-max(height, width) // longest)
    height, width = max(height // by, 1), max(width // by, 1)
    blocks = picture[: height * by, : width * by].astype(np.uint16)
    rows, columns = blocks.shape[0] // height, blocks.shape[1] // width
    small: Picture = blocks.reshape(height, rows, width, columns, 3).mean((1, 3)).astype(np.uint8)
    return small


def _checked(picture: Any) -> Picture:
    if not isinstance(picture, np.ndarray) or picture.dtype != np.uint8 or picture.shape[2:] != (3,):
        raise TypeError(f"no picture of bytes [height, width, 3] was rendered, but {type(picture).__name__}")
    height, width, _ = picture.shape
    if not 0 < min(height, width) <= max(height, width) <= _LARGEST_SIDE:
        raise ValueError(f"a picture of {width} x {height} pixels was rendered")
    return picture.copy()
