"""Which sides of an image are its channels: by its shape, by the setting, or nobody can tell."""

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from soulsgui.config.sections.network import Channels
from soulsgui.environments.actions import BoxActionSpec
from soulsgui.environments.box import BoxSpec
from soulsgui.environments.choices import DiscreteSpec
from soulsgui.environments.images import ImageLayout, fit_report, image_layout, image_words
from soulsgui.environments.observations import observation_from_space
from soulsgui.environments.spaces import SpacesSpec, report_lines
from soulsgui.errors import UsageError


@pytest.mark.parametrize(
    ("shape", "channels", "layout"),
    [
        ((4, 84, 84), "auto", (4, 84, 84, False)),
        ((84, 84, 12), "auto", (12, 84, 84, True)),
        ((210, 160, 3), "auto", (3, 210, 160, True)),
        ((10, 10, 7), "auto", (7, 10, 10, True)),
        ((20, 30, 6), "auto", (20, 30, 6, False)),
        ((20, 30, 6), "last", (6, 20, 30, True)),
        ((10, 10, 10), "last", (10, 10, 10, True)),
        ((10, 12, 10), "first", (10, 12, 10, False)),
        ((210, 160, 3), "first", (210, 160, 3, False)),
    ],
)
def test_the_sides_of_an_image(shape: tuple[int, ...], channels: Channels, layout: tuple[int, ...]) -> None:
    assert image_layout(shape, "small_cnn", channels) == ImageLayout(*layout)


@pytest.mark.parametrize("shape", [(10, 10, 10), (10, 12, 10)])
def test_what_the_shape_does_not_say_is_not_guessed(shape: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match="first or the last side of images 10×1") as caught:
        image_layout(shape, "small_cnn")
    assert "network.channels: first" in caught.value.remedy


@pytest.mark.parametrize(
    ("shape", "name", "channels"),
    [((4,), "small_cnn", "auto"), ((35, 84, 3), "nature_cnn", "auto"), ((8, 8, 7), "impala_resnet", "first")],
)
def test_no_image_of_that_size_is_refused(shape: tuple[int, ...], name: str, channels: Channels) -> None:
    with pytest.raises(UsageError, match=f"The network {name} needs images"):
        image_layout(shape, name, channels)


def test_what_was_taken_for_channels_is_told() -> None:
    room = spaces.Dict({"key": spaces.Discrete(2), "picture": spaces.Box(0, 255, (20, 30, 6), np.uint8)})
    words = image_words(observation_from_space(room), "auto")
    assert words == "20×30×6: 20 channels (first) of 30×6 (by its shape; otherwise set network.channels)"
    assert image_words(observation_from_space(room), "last") == (
        "20×30×6: 6 channels (last) of 20×30 (by network.channels)"
    )
    cube = BoxSpec((10, 10, 10), "uint8")
    assert "network.channels has to say" in image_words(cube, "auto")
    assert image_words(BoxSpec((10, 10, 10), "float32"), "auto") == ""
    assert image_words(BoxSpec((10,), "uint8"), "auto") == ""


NUMBERS = BoxSpec((4,), "float32")
CUBE = BoxSpec((10, 10, 10), "uint8", (0,), (1,))
CHOICE = DiscreteSpec(2)
BOUNDED = BoxActionSpec(BoxSpec((1,), "float32", (-2.0,), (2.0,)))
HALF = BoxActionSpec(BoxSpec((1,), "float32", (-2.0,), None))


def report(spaces: SpacesSpec | None, **changed: Any) -> dict[str, Any]:
    return fit_report(spaces, {"algorithm": "ppo", "network": "mlp", "channels": "auto"} | changed)


@pytest.mark.parametrize(
    ("spaces", "changed", "said", "remedy"),
    [
        (SpacesSpec(NUMBERS, BOUNDED), {"algorithm": "dqn"}, "one of several", "ppo, sac or vtrace,"),
        (SpacesSpec(NUMBERS, HALF), {"algorithm": "dqn"}, "one of several", ": ppo or vtrace,"),
        (SpacesSpec(NUMBERS, CHOICE), {"algorithm": "sac"}, "sac chooses numbers", "ppo, dqn or vtrace,"),
        (SpacesSpec(NUMBERS, HALF), {"algorithm": "sac"}, "sac chooses numbers", ": ppo or vtrace,"),
        (SpacesSpec(NUMBERS, CHOICE), {"network": "nature_cnn"}, "nature_cnn needs images of bytes", "mlp"),
        (SpacesSpec(CUBE, CHOICE), {"network": "nature_cnn"}, "at least 36×36", "mlp"),
        (SpacesSpec(CUBE, CHOICE), {"network": "small_cnn"}, "seen from their shape", "network.channels"),
        (SpacesSpec(NUMBERS, CHOICE), {"algorithm": "dqn"}, None, None),
        (SpacesSpec(NUMBERS, BOUNDED), {"algorithm": "sac"}, None, None),
        (SpacesSpec(NUMBERS, HALF), {"algorithm": "vtrace"}, None, None),
        (SpacesSpec(CUBE, CHOICE), {}, None, None),
        (SpacesSpec(CUBE, CHOICE), {"network": "small_cnn", "channels": "last"}, None, None),
        (SpacesSpec(NUMBERS, CHOICE), {"network": "my.nets:Own"}, None, None),
        (None, {"algorithm": "sac"}, None, None),
    ],
)
def test_a_misfit_is_told_with_all_that_fits_and_what_fits_or_is_not_known_is_none(
    spaces: SpacesSpec | None, changed: dict[str, Any], said: str | None, remedy: str | None
) -> None:
    misfit = report(spaces, **changed)["misfit"]
    assert (misfit is None) == (said is None)
    if said is not None and remedy is not None:
        assert said in misfit["message"]
        assert remedy in misfit["remedy"]


def test_it_stands_in_the_report_for_a_person() -> None:
    spaces = SpacesSpec(CUBE, CHOICE)
    checked = {"env_id": "Sea-v0", "ok": True, "spaces": spaces.to_json(), "native_vector": False}
    checked |= {"steps": 0, "problems": [], "notes": []}
    lines = report_lines(checked | report(spaces, algorithm="sac", channels="last"))
    assert "  image        10×10×10: 10 channels (last) of 10×10 (by network.channels)" in lines
    (misfit,) = [line for line in lines if line.startswith("  misfit       sac chooses")]
    assert "Set algorithm: ppo" in misfit
