"""Whether algorithm and network can take an environment."""

from typing import Any

import pytest

from soulsgui.environments.actions import BoxActionSpec
from soulsgui.environments.fit import fit_report
from soulsgui.environments.report_words import report_lines
from soulsgui.environments.spaces import BoxSpec, DiscreteSpec, SpacesSpec

NUMBERS = BoxSpec((4,), "float32")
CUBE = BoxSpec((10, 10, 10), "uint8", (0,), (1,))
CHOICE = DiscreteSpec(2)
BOUNDED = BoxActionSpec(BoxSpec((1,), "float32", (-2.0,), (2.0,)))
HALF = BoxActionSpec(BoxSpec((1,), "float32", (-2.0,), None))


def report(spaces: SpacesSpec | None, **changed: Any) -> dict[str, Any]:
    return fit_report(spaces, {"algorithm": "ppo", "network": "mlp", "channels": "auto"} | changed)


@pytest.mark.parametrize(
    ("spaces", "changed", "said"),
    [
        (SpacesSpec(NUMBERS, BOUNDED), {"algorithm": "dqn"}, "dqn chooses one of several numbered actions"),
        (SpacesSpec(NUMBERS, CHOICE), {"algorithm": "sac"}, "sac chooses numbers within bounds"),
        (SpacesSpec(NUMBERS, HALF), {"algorithm": "sac"}, "sac chooses numbers within bounds"),
        (SpacesSpec(NUMBERS, CHOICE), {"network": "nature_cnn"}, "nature_cnn needs images of bytes"),
        (SpacesSpec(CUBE, CHOICE), {"network": "nature_cnn"}, "at least 36×36"),
        (SpacesSpec(CUBE, CHOICE), {"network": "small_cnn"}, "can't be told by their shape"),
    ],
)
def test_a_misfit_is_told_with_what_to_do(spaces: SpacesSpec, changed: dict[str, Any], said: str) -> None:
    misfit = report(spaces, **changed)["misfit"]
    assert said in misfit["message"]
    assert misfit["remedy"]


@pytest.mark.parametrize(
    ("spaces", "changed"),
    [
        (SpacesSpec(NUMBERS, CHOICE), {"algorithm": "dqn"}),
        (SpacesSpec(NUMBERS, BOUNDED), {"algorithm": "sac"}),
        (SpacesSpec(NUMBERS, HALF), {"algorithm": "vtrace"}),
        (SpacesSpec(CUBE, CHOICE), {}),
        (SpacesSpec(CUBE, CHOICE), {"network": "small_cnn", "channels": "last"}),
        (SpacesSpec(NUMBERS, CHOICE), {"network": "my.nets:Own"}),
        (None, {"algorithm": "sac"}),
    ],
)
def test_what_fits_or_is_not_known_is_no_misfit(spaces: SpacesSpec | None, changed: dict[str, Any]) -> None:
    assert report(spaces, **changed)["misfit"] is None


def test_it_stands_in_the_report_for_a_person() -> None:
    spaces = SpacesSpec(CUBE, CHOICE)
    checked = {
        "env_id": "Sea-v0",
        "ok": True,
        "spaces": spaces.to_json(),
        "native_vector": False,
        "steps": 0,
        "problems": [],
        "notes": [],
    }
    lines = report_lines(checked | report(spaces, algorithm="sac", channels="last"))
    assert "  image        10×10×10: 10 channels (last) of 10×10 (by network.channels)" in lines
    (misfit,) = [line for line in lines if line.startswith("  misfit       sac chooses")]
    assert "Set algorithm: ppo" in misfit
