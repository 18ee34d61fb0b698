import json
import os
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from soulsgui.config.errors import ConfigError
from soulsgui.config.layers import combine, defaults_layer, load_run_settings
from soulsgui.config.paths import RunFolder
from soulsgui.config.schema import Settings
from soulsgui.runner.refusal import Refused
from soulsgui.runner.run.library import Library
from soulsgui.runner.run.queue import entry_of
from soulsgui.runner.run.record import RunRecord
from soulsgui.runner.run.start import new_run
from tests.runner.fake_program import save


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path / "runs")


def record(library: Library, name: str = "", created: float = 0.0, **fields: object) -> RunRecord:
    run = library.create(name, created)
    made = RunRecord.model_validate({"id": run.run_id, "name": name, "created": created, **fields})
    library.write_record(run, made)
    return made


def test_folder_is_named_by_time_and_name_and_is_new_each_time(library: Library) -> None:
    first = library.create("My first / try!", 0.0)
    second = library.create("My first / try!", 0.0)
    assert first.run_id.endswith("_My-first-try")
    assert second.run_id == f"{first.run_id}-2"
    assert first.logs.is_dir()
    assert "/" not in library.create("../../evil", 0.0).run_id
    assert library.create("...", 0.0).root.parent == library.root


def test_the_latest_run_is_the_one_begun_last_also_when_the_clock_was_set_back(library: Library) -> None:
    made = []
    for wall_time in (2e9, 1.9e9, 1.8e9):
        run = library.create("", wall_time)
        number = library.next_number() if made else 0  # the first is of a time without numbers
        made.append(run.run_id)
        library.write_record(run, RunRecord(id=run.run_id, created=wall_time, number=number))
    assert [run.run_id for run in library.folders()] == made[::-1]
    assert library.find("latest").run_id == made[-1]
    assert Library(library.root).last_record().id == made[-1]


def test_the_latest_run_is_none_from_elsewhere_and_may_be_one_that_is_gone_on_with(library: Library) -> None:
    old, new = [record(library, name, 2.0, number=number).id for number, name in ((1, "old"), (2, "new"))]
    record(library, "elsewhere", 3e9)
    assert (library.find("latest").run_id, library.last_record().id) == (new, new)
    run = library.find(old)
    library.write_record(run, library.record(run).model_copy(update={"number": library.next_number()}))
    assert (library.find("latest"), library.folders()[0]) == (run, run)


def test_runs_are_found_by_id_by_beginning_by_name_and_as_latest(library: Library) -> None:
    assert (library.folders(), library.summaries(None), library.last_record()) == ([], [], RunRecord())
    with pytest.raises(Refused, match="no run yet"):
        library.find("latest")
    old, new = record(library, "old", 1_000_000.0), record(library, "new", 2_000_000.0)
    assert [run.run_id for run in library.folders()] == [new.id, old.id]
    assert library.find("latest").run_id == new.id
    assert {library.find(name).run_id for name in (old.id, old.id[:-2], "old")} == {old.id}
    with pytest.raises(Refused, match="several"):
        library.find("19")
    record(library, "old", 3_000_000.0)
    with pytest.raises(Refused, match="several"):
        library.find("old")
    for wrong in ("", "2099", "../runs"):
        with pytest.raises(Refused, match="no run"):
            library.find(wrong)
    seed = record(library, "old seed 1", 4_000_000.0)
    assert library.find("old-seed-1").run_id == library.find(seed.id, whole=True).run_id == seed.id
    with pytest.raises(Refused, match=f"several runs: {seed.id}, "):
        library.find("19")
    with pytest.raises(Refused, match="no run"):
        library.find(seed.id[:-2], whole=True)


def test_run_is_shown_as_its_runner_knows_it_or_as_cut_off_or_damaged(library: Library) -> None:
    made = record(library, "cut", 1.0, state="running", env_steps=5)
    (summary,) = library.summaries(made.model_copy(update={"env_steps": 9}))
    assert (summary.state, summary.env_steps) == ("running", 9)
    (summary,) = library.summaries(None)
    assert (summary.state, summary.env_steps) == ("stopped", 5)
    assert "without stopping" in summary.error
    assert library.last_record().state == "stopped"
    library.find(made.id).run.write_text("{")
    (summary,) = Library(library.root).summaries(None)
    assert (summary.id, summary.state) == (made.id, "failed")
    assert "damaged" in summary.error


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such files")
@pytest.mark.timeout(10)
def test_a_run_whose_record_is_a_pipe_is_listed_as_damaged(library: Library) -> None:
    record(library, "whole", 1.0, state="stopped", number=1)
    run = library.create("odd", 2.0)
    os.mkfifo(run.run)
    by_id = {summary.id: summary for summary in library.summaries(None)}
    assert by_id[run.run_id].state == "failed"
    assert "run.json is a pipe or a device" in by_id[run.run_id].error
    assert len(by_id) == 2


def test_summary_tells_size_and_whether_it_can_be_resumed_and_best_is_the_saved_one(library: Library) -> None:
    made = record(library, "", 1.0, state="stopped")
    run = library.find(made.id)
    assert not library.summary(run, None).resumable
    save(run.checkpoint, run, "current", 1, score=9.0)
    library.write_settings(run, Settings())
    again = Library(library.root).summary(run, None)
    assert again.resumable
    assert again.size_bytes > 64
    assert library.best(run) is None
    save(run.best_model, run, "best", 1, model_id=4, score=2.5)
    assert library.best(run) == (4, 2.5)


def test_settings_come_back_as_they_were_and_are_read_again_only_when_they_were_written(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, reads = library.create("", 0.0), []

    def counted(path: Path) -> Settings:
        reads.append(path)
        return load_run_settings(path)

    monkeypatch.setattr("soulsgui.runner.run.library.load_run_settings", counted)
    for gamma in (0.5, 0.6):
        settings = Settings.model_validate({"seed": 5, "ppo": {"gamma": gamma}})
        library.write_settings(run, settings)
        assert all(library.settings(run) == settings for _ in range(3))
        assert json.loads(run.config.read_text())["ppo"]["gamma"] == gamma
    assert len(reads) == 2
    run.config.write_text('{"ppo": {"gamma": 7}, "colour": 3}')
    told = set()
    for _ in range(3):
        with pytest.raises(ConfigError) as caught:
            library.settings(run)
        told.add(str(caught.value))
    assert len(reads) == 3
    (words,) = told
    assert "ppo.gamma = 7" in words
    run.config.write_text('{"seed": 5}')
    assert library.settings(run).seed == 5


def test_settings_are_those_of_the_run_that_was_meant_whenever_another_thread_asks(library: Library) -> None:
    mine, other = library.create("mine", 0.0), library.create("other", 0.0)
    for seed, run in enumerate((mine, other), start=1):
        library.write_settings(run, Settings(seed=seed))

    def ask_meanwhile(frame: FrameType, event: str, _arg: Any) -> Any:
        """At each line comes in, as another thread may, who asks for the other run."""
        if frame.f_code is Library.settings.__code__ and event == "line":
            library.settings(other)
        return ask_meanwhile

    before = sys.gettrace()
    sys.settrace(ask_meanwhile)
    try:
        assert library.settings(mine).seed == 1
    finally:
        sys.settrace(before)


def test_settings_that_could_not_be_read_are_tried_again(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    run = library.create("", 0.0)
    library.write_settings(run, Settings.model_validate({"seed": 5}))
    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", refused)
        with pytest.raises(ConfigError, match="Permission denied"):
            library.settings(run)
    assert library.settings(run).seed == 5


def test_run_that_can_not_be_kept_leaves_no_folder(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    settings = combine([defaults_layer()])
    monkeypatch.setattr(library, "write_record", full)
    with pytest.raises(OSError, match="No space"):
        new_run(library, settings, entry_of(1, settings), 0.0)
    monkeypatch.setattr(RunFolder, "logs", library.root / "no" / "such")
    with pytest.raises(OSError, match="no"):
        library.create("", 0.0)
    assert list(library.root.iterdir()) == []


def test_a_folder_that_we_may_not_read_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library(tmp_path)
    run = library.create("mine", 0.0)
    run.run.write_text("{}")
    (tmp_path / "lost+found").mkdir()
    exists = Path.exists

    def refused(path: Path) -> bool:
        if path.parent.name == "lost+found":
            raise PermissionError(13, "Permission denied")
        return exists(path)

    monkeypatch.setattr(Path, "exists", refused)
    assert [found.run_id for found in library.folders()] == [run.run_id]
