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
    words = "Nearest checkpoint: update 41,000, 1.2 % away"
    assert nearest(FOUND, Axis.ENV_STEP, 415_000) == (FOUND[0], words)
    assert nearest(FOUND, Axis.UPDATE, 41_500) == (FOUND[0], words)
    assert nearest(FOUND, Axis.EPISODE, 20_750) == (FOUND[0], words)
    assert nearest(FOUND, Axis.EPISODE, 12_000) == (FOUND[1], words.replace("41", "20").replace("1.2", "17"))
    late = "Nearest checkpoint: update 20,000, 1 min 40 s away"
    assert nearest(FOUND, Axis.TIME, 1e9 + 20_100) == (FOUND[1], late)
    assert nearest([checkpoint(0)], Axis.ENV_STEP, 0.0) == (
        checkpoint(0),
        "Nearest checkpoint: update 0, 0 % away",
    )


def test_where_nothing_was_saved_nothing_is_offered() -> None:
    assert nearest([FOUND[2]], Axis.ENV_STEP, 5.0) is None
    assert nearest(FOUND, Axis.TRAINING, 5.0) is None
