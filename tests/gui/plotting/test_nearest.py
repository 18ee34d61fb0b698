from soulsgui.gui.plotting.nearest import nearest
from soulsgui.gui.plotting.rows import Axis
from soulsgui.wire.control import CheckpointInfo


def checkpoint(updates: int, valid: bool = True) -> CheckpointInfo:
    return CheckpointInfo(
        id=f"history/{updates}", kind="history", path="/d", model_id=updates, env_steps=10 * updates,
        updates=updates, episodes=updates // 2, created=1e9 + updates, size_bytes=1, valid=valid,
    )  # fmt: skip


FOUND = [checkpoint(41_000), checkpoint(20_000), checkpoint(41_400, valid=False)]


def test_the_nearest_whole_checkpoint_is_told_along_each_axis() -> None:
    words = "Nearest checkpoint: update 41,000, {}"
    assert nearest(FOUND, Axis.ENV_STEP, 415_000) == (FOUND[0], words.format("5,000 steps earlier"))
    assert nearest(FOUND, Axis.UPDATE, 40_999) == (FOUND[0], words.format("1 update later"))
    assert nearest(FOUND, Axis.EPISODE, 20_750) == (FOUND[0], words.format("250 episodes earlier"))
    assert nearest(FOUND, Axis.EPISODE, 20_500.2) == (FOUND[0], words.format("right here"))
    late = "Nearest checkpoint: update 20,000, 1 min 40 s earlier"
    assert nearest(FOUND, Axis.TIME, 1e9 + 20_100) == (FOUND[1], late)


def test_where_nothing_was_saved_nothing_is_offered() -> None:
    assert nearest([FOUND[2]], Axis.ENV_STEP, 5.0) is None
    assert nearest(FOUND, Axis.TRAINING, 5.0) is None
