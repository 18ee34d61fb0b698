"""Which sides of an image are its channels, its height and its width. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from soulsgui.config.sections.network import Channels
from soulsgui.environments.box import BoxSpec
from soulsgui.environments.observations import ObservationSpec, with_channels
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.errors import SoulsGuiError, UsageError

LEAST_SIDES = {"nature_cnn": 36, "small_cnn": 3, "impala_resnet": 8}
"""The networks that see images as such, and the least height and width that each can see."""

_FEW = 4


class ImageLayout(NamedTuple):
    """Where channels, height and width of an image are."""

    channels: int
    height: int
    width: int
    channels_last: bool


def image_layout(shape: Sequence[int], name: str, channels: Channels = "auto") -> ImageLayout:
    """Tell what an image's sides are.

    Of `auto` channels are last where there are at most 4, or where only the first two sides are equal, and
    otherwise first. Where first and last side are equal, the shape says nothing of it.

    Args:
        name: The network that needs an image, a key of `LEAST_SIDES`.

    Raises:
        UsageError: It is no image, or too small, or nobody can tell where its channels are.
    """
    least = LEAST_SIDES[name]
    layout = _layout(shape, channels) if len(shape) == 3 else None
    if layout is None or min(layout.height, layout.width) < least:
        raise UsageError(
            f"The network {name} needs images [channels, height, width] or [height, width, channels] of at "
            f"least {least}×{least}, not {tuple(shape)}.",
            "Choose network.name mlp, or use wrappers that produce such images.",
        )
    if channels == "auto" and shape[0] == shape[2]:
        raise UsageError(
            f"Whether the first or the last side of images {_shape_words(shape)} holds the channels can't "
            "be seen from their shape.",
            "Set network.channels: first for [channels, height, width], last for [height, width, channels].",
        )
    return layout


def _layout(shape: Sequence[int], channels: Channels) -> ImageLayout:
    first, middle, last = shape
    if channels == "last" or (channels == "auto" and (last <= _FEW < first or first == middle != last)):
        return ImageLayout(last, first, middle, True)
    return ImageLayout(first, middle, last, False)


def layout_of(image: BoxSpec, name: str) -> ImageLayout:
    """Tell what the sides of what a network sees are: `image_layout` of an image of bytes.

    Raises:
        UsageError: The image is none of bytes, or has no such sides.
    """
    if image.dtype != "uint8":
        raise UsageError(
            f"The network {name} needs images of bytes (uint8), not of {image.dtype}.",
            "Choose network.name mlp, or use wrappers that produce such images.",
        )
    return image_layout(image.shape, name, image.channels)


def image_words(observation: ObservationSpec, channels: Channels) -> str:
    """Return in words which sides of the image among what is shown are which; empty where there is none."""
    image = observation.seen(True).fields[0][1]
    if image.dtype != "uint8" or len(image.shape) != 3:
        return ""
    shape = _shape_words(image.shape)
    if channels == "auto" and image.shape[0] == image.shape[2]:
        return f"{shape}: network.channels has to say whether the first or the last side are its channels"
    layout = _layout(image.shape, channels)
    place = "last" if layout.channels_last else "first"
    why = "by its shape; otherwise set network.channels" if channels == "auto" else "by network.channels"
    return f"{shape}: {layout.channels} channels ({place}) of {layout.height}×{layout.width} ({why})"


def _shape_words(shape: Sequence[int]) -> str:
    return "×".join(map(str, shape))


def refuse_misfit(spaces: SpacesSpec, learner: Mapping[str, Any]) -> None:
    """Refuse an algorithm or a network that can't take what an environment shows and takes.

    What a network of one's own can see only its making tells: it is not looked at here. The learner is told
    as `algorithm`, `network` (`network.name`) and `channels` (`network.channels`).

    Raises:
        EnvironmentCheckError: The algorithm can't choose such actions.
        UsageError: The network can't see such observations.
    """
    algorithm, network = learner["algorithm"], learner["network"]
    if algorithm == "dqn":
        spaces.numbered_actions(algorithm)
    if algorithm == "sac":
        spaces.bounded_actions(algorithm)
    if network in LEAST_SIDES:
        seen = with_channels(spaces.observation.seen(True), learner["channels"])
        layout_of(seen.fields[0][1], network)


def fit_report(spaces: SpacesSpec | None, learner: Mapping[str, Any]) -> dict[str, Any]:
    """Return what there is to report of an environment together with what is to learn from it.

    Returns:
        `misfit`: what `refuse_misfit` says, as `message` and `remedy`, None where it fits; `image`: which
        sides of the image it shows are which, in words, empty where it shows none.
    """
    misfit = None
    if spaces is None:
        return {"misfit": None, "image": ""}
    try:
        refuse_misfit(spaces, learner)
    except SoulsGuiError as error:
        misfit = {"message": error.message, "remedy": error.remedy}
    return {"misfit": misfit, "image": image_words(spaces.observation, learner["channels"])}
