from itertools import combinations

import pytest

from soulsgui.gui.colours import DARK, LIGHT, Colours, Tone, blend, contrast

SETS = pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])


def test_contrast_of_black_and_white_is_21() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#777777") == pytest.approx(1)


def test_contrast_agrees_with_a_published_example() -> None:
    # https://webaim.org/resources/contrastchecker: #767676 on white is the lightest grey that passes AA.
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.005)


def test_blending_moves_between_the_two_colours() -> None:
    assert blend("#ff0000", "#0000ff", 0.0) == "#0000ff"
    assert blend("#ff0000", "#0000ff", 1.0) == "#ff0000"
    assert blend("#ffffff", "#000000", 0.5) == "#808080"


@SETS
@pytest.mark.parametrize("tone", list(Tone))
def test_every_tone_is_readable_on_every_background(colours: Colours, tone: Tone) -> None:
    for background in (*colours.backgrounds(), colours.washes[tone]):
        assert contrast(colours.tones[tone], background) >= 4.5, background


@SETS
def test_words_are_readable_on_every_wash_and_on_the_main_button(colours: Colours) -> None:
    for wash in colours.washes.values():
        assert contrast(colours.text, wash) >= 4.5
        assert contrast(colours.muted, wash) >= 4.5
    assert contrast(colours.on_accent, colours.accent) >= 4.5


@SETS
def test_controls_have_an_outline_that_is_seen(colours: Colours) -> None:
    assert contrast(colours.edge, colours.base) >= 3
    assert contrast(colours.edge, colours.window) >= 3


@SETS
def test_curves_are_readable_and_different(colours: Colours) -> None:
    assert len(set(colours.curves)) == len(colours.curves)
    for index in range(len(colours.curves)):
        assert contrast(colours.curve(index), colours.base) >= 4.5
    for first, second in combinations(colours.curves, 2):
        channels = [abs(int(first[i : i + 2], 16) - int(second[i : i + 2], 16)) for i in (1, 3, 5)]
        assert sum(channels) > 40


@SETS
def test_a_faded_curve_stays_behind_its_smoothed_one_but_is_seen(colours: Colours) -> None:
    for index in range(len(colours.curves)):
        faded = contrast(colours.faded_curve(index), colours.base)
        assert 1.3 < faded < contrast(colours.curve(index), colours.base)


@SETS
def test_curve_colours_repeat_after_the_last(colours: Colours) -> None:
    assert colours.curve(len(colours.curves)) == colours.curve(0)
