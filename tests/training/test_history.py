import itertools
from dataclasses import replace
from pathlib import Path

from soulsgui.config.paths import RunFolder
from soulsgui.config.sections.run import CheckpointSettings
from soulsgui.training.checkpoint import write_checkpoint
from soulsgui.training.history import History, Kept, surplus
from tests.faults.checkpoint_writer import checkpoint


def test_a_long_history_stays_evenly_spread_with_its_ends_and_its_pins() -> None:
    kept: list[Kept] = []
    for number in range(1000):
        kept.append(Kept(float(number), number in (500, 501), Path(str(number))))
        gone = surplus(kept, 20)
        kept = [one for one in kept if one.path not in gone]
    times = [one.created for one in kept]
    assert len(kept) == 22
    assert (times[0], times[-1]) == (0.0, 999.0)
    assert {500.0, 501.0} <= set(times)
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert max(gaps) <= 4 * 1000 / 20


def test_nothing_is_removed_that_is_pinned_first_or_last() -> None:
    pinned = [Kept(float(number), True, Path(str(number))) for number in range(5)]
    assert surplus(pinned, 2) == []
    assert surplus([one._replace(pinned=False) for one in pinned], 2) == [Path("1"), Path("3"), Path("2")]


def test_one_is_due_by_updates_or_by_time_and_only_after_an_update() -> None:
    settings = CheckpointSettings(history_updates=10, history_minutes=1.0)
    history = History(RunFolder(Path()), settings)
    seen = [(15, 0.0), (19, 1.0), (20, 2.0), (21, 3.0), (21, 100.0), (21, 200.0), (22, 201.0), (31, 202.0)]
    assert [history.due(*moment) for moment in seen] == [
        False, False, True, False, True, False, True, True
    ]  # fmt: skip
    never = History(RunFolder(Path()), CheckpointSettings(history_updates=None, history_minutes=None))
    assert not any(never.due(updates, 1e6 * updates) for updates in range(100))


def test_what_the_run_is_to_go_on_from_is_not_thinned_away(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    for number in range(5):
        made = checkpoint(number, size=10)
        write_checkpoint(
            run.history / str(number),
            replace(made, info=made.info.model_copy(update={"created": float(number)})),
        )
    run.resume_from.write_text("history/2")
    History(run, CheckpointSettings(history_kept=2)).thin()
    assert sorted(path.name for path in run.history.iterdir()) == ["0", "2", "4"]
