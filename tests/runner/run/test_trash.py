import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from soulsgui.config.paths import RunFolder
from soulsgui.errors import SoulsGuiError, UsageError
from soulsgui.runner.refusal import Refused
from soulsgui.runner.run.library import Library, tree_bytes
from soulsgui.runner.run.record import RunRecord
from soulsgui.runner.run.trash import Bin
from soulsgui.system import in_words
from tests.runner.fake_program import save

MEMORY_DISK = Path("/dev/shm")


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path / "runs")


@pytest.fixture
def thrown(library: Library, tmp_path: Path) -> Bin:
    return Bin(tmp_path / "trash", library)


@pytest.fixture
def run(library: Library) -> RunFolder:
    made = library.create("one", 1_000_000.0)
    library.write_record(made, RunRecord(id=made.run_id, name="one", created=1.0, state="stopped"))
    save(made.checkpoint, made, "current", 100)
    save(made.history / "7", made, "history", 70)
    return made


def test_a_run_comes_back_as_it_was_and_a_purged_one_is_gone(
    library: Library, thrown: Bin, run: RunFolder
) -> None:
    before = {path.relative_to(run.root): path.stat().st_size for path in run.root.rglob("*")}
    thrown.throw_run(run)
    assert library.folders() == []
    assert [found.id for found in thrown.runs.summaries(None)] == [run.run_id]
    assert thrown.restore_run("one") == run
    assert {path.relative_to(run.root): path.stat().st_size for path in run.root.rglob("*")} == before
    thrown.throw_checkpoint(run, library.checkpoints.get(run, "history/7"), goes_on=True)
    thrown.throw_run(run)
    freed = thrown.purge_runs("")
    assert freed == sum(size for path, size in before.items() if (path.suffix))
    assert thrown.runs.folders() == []
    assert thrown.purge_runs("") == 0
    with pytest.raises(Refused, match="There is no run"):
        thrown.restore_run("one")


def test_a_checkpoint_comes_back_unless_its_place_is_taken(
    library: Library, thrown: Bin, run: RunFolder
) -> None:
    thrown.throw_checkpoint(run, library.checkpoints.get(run, "history/7"), goes_on=False)
    assert not (run.history / "7").exists()
    save(run.history / "7", run, "history", 71)
    with pytest.raises(UsageError, match="already exists"):
        thrown.restore_checkpoint(run, "history/7")
    thrown.throw_checkpoint(run, library.checkpoints.get(run, "checkpoint"), goes_on=False)
    assert thrown.restore_checkpoint(run, "checkpoint") == "checkpoint"
    assert thrown.purge_checkpoints(run, "history/7") > 0
    with pytest.raises(SoulsGuiError):
        thrown.restore_checkpoint(run, "history/7")
    with pytest.raises(SoulsGuiError):
        thrown.restore_checkpoint(run, "../../elsewhere")


def test_another_run_of_the_same_id_has_nothing_of_one_that_was_thrown_away(
    library: Library, thrown: Bin, run: RunFolder
) -> None:
    thrown.throw_checkpoint(run, library.checkpoints.get(run, "history/7"), goes_on=False)
    assert library.next_number() == 1
    thrown.throw_run(run)
    other = library.create("one", 1_000_000.0)  # as when it is imported again
    assert other == run
    library.write_record(other, RunRecord(id=other.run_id, created=2.0, state="stopped", number=8))
    assert library.checkpoints.list(thrown.checkpoints_of(other)) == []
    with pytest.raises(SoulsGuiError, match=f"The bin of run {run.run_id} has no checkpoint"):
        thrown.restore_checkpoint(other, "history/7")
    assert library.next_number() == 9
    save(other.history / "8", other, "history", 80)
    thrown.throw_checkpoint(other, library.checkpoints.get(other, "history/8"), goes_on=False)
    assert thrown.purge_runs(run.run_id) > 0
    assert thrown.restore_checkpoint(other, "history/8") == "history/8"


def test_what_a_purge_left_unfinished_is_not_put_back_and_goes_with_the_next_start(
    library: Library, thrown: Bin, run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    thrown.throw_run(run)
    with monkeypatch.context() as killed:
        killed.setattr("shutil.rmtree", lambda *_, **__: sys.exit())
        with pytest.raises(SystemExit):
            thrown.purge_runs(run.run_id)
    again = Bin(tmp_path / "trash", library)
    assert again.runs.folders() == []
    again.clear()
    assert [path for path in (tmp_path / "trash").rglob("*") if path.is_file()] == []


@pytest.mark.skipif(not MEMORY_DISK.exists(), reason="needs two file systems")
def test_a_run_on_another_file_system_than_the_bin_stays_and_it_is_said_why(
    thrown: Bin, library: Library, run: RunFolder
) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY_DISK) as elsewhere:
        shutil.move(library.root, elsewhere)
        library.root.symlink_to(Path(elsewhere, library.root.name))
        with pytest.raises(OSError, match="cross-device") as caught:
            thrown.throw_run(run)
        assert run.run.exists()
    assert "that is on another file system.\nKeep the whole data folder on one" in in_words(caught.value)


def test_what_is_pinned_or_needed_is_not_thrown_away(library: Library, thrown: Bin, run: RunFolder) -> None:
    with pytest.raises(Refused, match="needs its current checkpoint"):
        thrown.throw_checkpoint(run, library.checkpoints.get(run, "checkpoint"), goes_on=True)
    run.resume_from.write_text("history/7")
    with pytest.raises(Refused, match="about to continue from"):
        thrown.throw_checkpoint(run, library.checkpoints.get(run, "history/7"), goes_on=True)
    library.checkpoints.edit(run, "history/7", None, True)
    with pytest.raises(Refused, match="is pinned"):
        thrown.throw_checkpoint(run, library.checkpoints.get(run, "history/7"), goes_on=False)
    library.write_record(run, library.record(run).model_copy(update={"pinned": True}))
    with pytest.raises(Refused, match="is pinned"):
        thrown.throw_run(run)


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_what_links_lead_to_is_neither_measured_nor_removed(
    library: Library, thrown: Bin, run: RunFolder, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "large").write_bytes(bytes(10**6))
    (run.root / "logs").rmdir()
    (run.root / "logs").symlink_to(elsewhere)
    assert tree_bytes(run.root) < 10**6
    moved = tmp_path / "moved"
    run.root.rename(moved)
    run.root.symlink_to(moved)
    thrown.throw_run(run)
    assert thrown.purge_runs("") < 10**6
    assert thrown.runs.folders() == []
    assert (moved / "run.json").exists()
    assert (elsewhere / "large").exists()
