"""Evaluations are shown frame by frame, and filmed; what can't be is said in words."""

import io
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageSequence

from soulsgui.environments.pictures import check_shown
from soulsgui.errors import EnvironmentCheckError, UsageError
from soulsgui.modes import video as videos
from soulsgui.modes.evaluate import Asked, EvaluationError, Frame, evaluate
from soulsgui.modes.video import NoVideoError, check_video, jpeg, video
from soulsgui.policies.numpy_mlp import MLPPolicySpec, NumpyMLPPolicy
from tests.modes.test_evaluate import Seeded, Stub

Obs = NDArray[np.float32]


class Shown(Seeded):
    """A picture of 5 x 7 pixels, as bright as the steps that are left."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 - as Gymnasium has it
    broken: Any = None

    def render(self) -> Any:
        return np.full((5, 7, 3), 20 * self.left, np.uint8) if self.broken is None else self.broken


class Certain(Stub):
    """Says the same of every observation."""

    def outputs(self, obs: NDArray[Any]) -> Obs:
        return np.tile(np.log(np.array([1, 2, 5], np.float32)), (len(obs), 1))


def frames_of(make: Callable[[], Any], episodes: int, policy: Any = None, **more: Any) -> list[Frame]:
    found: list[Frame] = []
    evaluate(policy or Certain(), make, Asked(episodes, show=lambda frame: found.append(frame())), **more)
    return found


def test_each_step_and_each_end_is_shown_one_episode_after_the_other() -> None:
    found = frames_of(Shown, 3)
    # Episode k makes k + 1 steps, and its end is shown, too.
    assert [(one.episode, one.step) for one in found] == [
        (k, step) for k in range(3) for step in range(k + 2)
    ]
    assert [one.ended for one in found[-4:]] == [False, False, False, True]
    assert [one.return_so_far for one in found[-4:]] == [0, 2, 4, 6]
    assert [one.picture[0, 0, 0] for one in found[-4:]] == [60, 40, 20, 0]
    assert found[0].rate == 10
    assert found[-1].action == ()
    assert found[-1].said == ()


def test_what_the_policy_says_is_shown_with_what_it_does() -> None:
    first = frames_of(Shown, 1)[0]
    assert (first.action, first.says) == ((2,), "probabilities")
    assert first.said == pytest.approx((0.125, 0.25, 0.625))
    masked = frames_of(partial(Shown, masked=True), 1)[0]
    assert (masked.action, masked.said) == ((1,), pytest.approx((1 / 3, 2 / 3, 0)))
    valued = frames_of(Shown, 1, valued=True)[0]
    assert (valued.says, valued.said) == ("values", pytest.approx(np.log([1, 2, 5]).tolist()))


def test_looking_changes_nothing_of_the_evaluation() -> None:
    policy = NumpyMLPPolicy(MLPPolicySpec((1,), 3, 0, (), "tanh", False).to_json())
    rng = np.random.default_rng(3)
    weights = {"policy.0.weight": rng.normal(size=(3, 1)), "policy.0.bias": rng.normal(size=3)}
    policy.load({name: value.astype(np.float32) for name, value in weights.items()})
    unseen = evaluate(policy, Shown, Asked(5))
    seen = evaluate(policy, Shown, Asked(5, show=lambda frame: frame() and None))
    assert (seen.returns, seen.lengths) == (unseen.returns, unseen.lengths)


@pytest.mark.parametrize("broken", [[], np.zeros((5, 7), np.uint8), np.zeros((5, 9000, 3), np.uint8)])
def test_what_is_no_picture_is_said_in_words(broken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Shown, "broken", broken)
    with pytest.raises(EvaluationError, match=r"rendering.* was rendered"):
        frames_of(Shown, 1)


def test_an_environment_that_does_not_render_as_pictures_is_told_before_it_is_made() -> None:
    gymnasium.register("Blind-v0", Seeded)
    try:
        with pytest.raises(EnvironmentCheckError, match="Blind-v0 can't be shown"):
            check_shown("Blind-v0")
    finally:
        del gymnasium.registry["Blind-v0"]
    check_shown("CartPole-v1")


def filmed(path: Path, episodes: int = 3) -> str:
    with video(path) as film:
        for frame in frames_of(Shown, episodes):
            film.add(frame)
    return film.words


def test_a_gif_holds_every_frame_at_its_pace(tmp_path: Path) -> None:
    path = tmp_path / "a.gif"
    path.write_text("an older one")
    assert filmed(path) == ""
    with Image.open(path) as found:
        assert found.size == (7, 5)
        images = list(ImageSequence.Iterator(found))
        # Two frames that look alike may be one that is shown for longer.
        assert sum(one.info["duration"] for one in images) == 9 * 100
    assert list(tmp_path.iterdir()) == [path]


def test_a_gif_is_never_larger_than_it_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(videos, "_MOST_GIF_PIXELS", 4 * 5 * 7)
    assert filmed(tmp_path / "a.gif").startswith("the last 5 pictures are not in the video")


def test_an_mp4_holds_every_frame_at_its_pace(tmp_path: Path) -> None:
    av = pytest.importorskip("av")
    assert filmed(tmp_path / "a.mp4") == ""
    with av.open(str(tmp_path / "a.mp4")) as found:
        stream = found.streams.video[0]
        assert (stream.width, stream.height, stream.average_rate) == (8, 6, 10)
        assert sum(1 for _ in found.decode(stream)) == 9


def test_a_video_that_is_broken_off_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "a.gif"
    path.write_text("an older one")
    frame = frames_of(Shown, 1)[0]

    def break_off() -> None:
        with video(path) as film:
            film.add(frame)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        break_off()
    assert path.read_text() == "an older one"
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_missing_for_a_video_is_said_before_anything_is_played(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(UsageError, match=r"should end with \.mp4 or \.gif"):
        check_video("a.avi")
    monkeypatch.setitem(sys.modules, "av", None)
    monkeypatch.setitem(sys.modules, "PIL", None)
    for name, wanted, package in (("a.mp4", "PyAV", "av"), ("a.gif", "Pillow", "pillow")):
        with pytest.raises(NoVideoError, match=f"{wanted} is not installed") as refused:
            check_video(name)
        assert f"pip install {package}" in refused.value.remedy


def test_a_jpeg_is_made_smaller_where_the_picture_is_large() -> None:
    with Image.open(io.BytesIO(jpeg(np.zeros((1000, 2000, 3), np.uint8)))) as found:
        assert (found.format, found.size) == ("JPEG", (640, 320))
