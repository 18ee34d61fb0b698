import json
import struct
import sys
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from soulsgui.config.paths import RunFolder
from soulsgui.config.schema import Settings
from soulsgui.errors import SoulsGuiError
from soulsgui.runner.run import bundle
from soulsgui.runner.run.bundle import export_run, import_run
from soulsgui.runner.run.library import UNPACKED, Library
from soulsgui.runner.run.record import RunRecord
from soulsgui.runner.run.scores import keep_evaluation, kept_evaluations
from soulsgui.wire.control import Evaluated
from soulsgui.wire.manifest import PINNED, ManifestFile
from soulsgui.wire.messages.live import LiveChange, read_changes
from tests.runner.fake_program import save
from tests.runner.run.test_evaluations import REPORT


def told(_doing: str, _part: float) -> None:
    """Nobody listens."""


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    library = Library(tmp_path / "here")
    made = library.create("one", 1_000_000.0)
    record = RunRecord(
        id=made.run_id, name="<script>", note="a & b", created=1.0, state="running", experiment="E", sweep="S"
    )
    library.write_record(made, record)
    library.write_settings(made, Settings(seed=77))
    save(made.checkpoint, made, "current", 100)
    save(made.history / "7", made, "history", 70)
    save(made.history / "8", made, "history", 80)
    (made.history / "8" / PINNED).touch()
    LiveChange(time=1.0, attempt=1, update=2, env_steps=3, after={"seed": 7}).append_to(made.changes)
    keep_evaluation(made, Evaluated.model_validate(REPORT), "checkpoint")
    (made.logs / "trainer.log").write_text("not taken along")
    return made


@pytest.fixture
def file(run: RunFolder, tmp_path: Path) -> Path:
    path = tmp_path / "one.soulsrun"
    assert "read again without errors" in export_run(run, path, told)
    return path


def test_a_run_opens_elsewhere(run: RunFolder, file: Path, tmp_path: Path) -> None:
    there = Library(tmp_path / "there")
    first = import_run(file, there.root, "", told)
    second = import_run(file, there.root, "again", told)
    assert (first.run_id, second.run_id) == (run.run_id, f"{run.run_id}-2")
    records = [there.record(found) for found in (first, second)]
    assert [record.name for record in records] == ["<script>", "again"]
    assert {record.state for record in records} == {"stopped"}
    # The second stands beside its original, and would count twice.
    assert [(record.experiment, record.sweep) for record in records] == [("E", "S"), ("", "")]
    assert [record.number for record in records] == [0, 0]  # `latest` means a run of there
    assert there.settings(first).seed == 77
    saved = {info.id: info.valid for info in there.checkpoints.list(first)}
    assert saved == {"checkpoint": True, "history/8": True}
    assert [one.after for one in read_changes(first.changes)] == [{"seed": 7}]
    assert [one.mean_return for one in kept_evaluations(first)] == [1.0]
    assert not list(first.logs.iterdir())
    assert not [path for path in there.root.iterdir() if path.name.startswith(".")]


def test_two_imports_at_once_leave_each_other_whole(
    run: RunFolder, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, rename, faster = Library(tmp_path / "there"), Path.rename, list[RunFolder]()

    def overtaken(path: Path, target: Path) -> Path:
        monkeypatch.undo()
        faster.append(import_run(file, there.root, "faster", told, f"{UNPACKED}.other"))
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", overtaken)
    slower = import_run(file, there.root, "slower", told)
    assert [one.run_id for one in (*faster, slower)] == [run.run_id, f"{run.run_id}-2"]
    assert [there.record(one).name for one in (*faster, slower)] == ["faster", "slower"]
    assert json.loads(slower.run.read_text())["dir"] == str(slower.root)
    assert len(list(there.root.iterdir())) == 2


def test_a_checkpoint_that_is_replaced_while_it_is_packed_is_whole(run: RunFolder, tmp_path: Path) -> None:
    def goes_on(doing: str, _part: float) -> None:
        if doing.endswith("checkpoint/manifest.json"):
            save(run.checkpoint, run, "current", 200)

    export_run(run, path := tmp_path / "one.soulsrun", goes_on)
    there = Library(tmp_path / "there")
    imported = import_run(path, there.root, "", told)
    saved = {info.id: info.valid for info in there.checkpoints.list(imported)}
    assert saved == {"checkpoint": True, "history/8": True}
    assert sorted(one.name for one in tmp_path.iterdir()) == ["here", "one.soulsrun", "there"]


def test_a_disk_without_room_takes_no_export(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "free_disk_bytes", lambda _path: 0)
    with pytest.raises(SoulsGuiError, match="not enough space"):
        export_run(run, tmp_path / "one.soulsrun", told)


def test_its_report_shows_words_of_others_as_words(file: Path) -> None:
    with zipfile.ZipFile(file) as archive:
        page = archive.read("report.html").decode()
    assert "&lt;script&gt;" in page
    assert "<script" not in page
    assert "a &amp; b" in page
    assert "default-src 'none'" in page
    assert "<td>seed</td><td>77</td>" in page


def forged(file: Path, change: Callable[[dict[str, Any], dict[str, bytes]], None]) -> Path:
    """Write the file anew with what `change` makes of its list and its contents."""
    with zipfile.ZipFile(file) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    listed = json.loads(contents.pop("soulsrun.json"))
    change(listed, contents)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in contents.items():
            archive.writestr(name, data)
        archive.writestr("soulsrun.json", json.dumps(listed))
    return file


def with_file(name: str, data: bytes = b"x", **lies: Any) -> Callable[..., None]:
    def change(listed: dict[str, Any], contents: dict[str, bytes]) -> None:
        contents[name] = data
        listed["files"][name] = ManifestFile.of(data).model_dump() | lies

    return change


def without(name: str) -> Callable[..., None]:
    def change(listed: dict[str, Any], contents: dict[str, bytes]) -> None:
        del listed["files"][name], contents[name]

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (with_file("run/../outside"), "not a file of a run"),
        (with_file("run//etc/passwd"), "not a file of a run"),
        (with_file("run/checkpoint/../../x"), "not a file of a run"),
        (with_file("run/checkpoint/a\\b"), "not a file of a run"),
        (with_file("run/checkpoint/sub/x"), "not a file of a run"),
        (with_file("run/logs/trainer.log"), "not a file of a run"),
        (with_file("run/paused"), "not a file of a run"),
        (with_file("run/manual_save/\n/x"), "not a file of a run"),
        (with_file("run/checkpoint/x", sha256="0" * 64), "is damaged"),
        (with_file("run/checkpoint/x", b"x" * 2**20, size=10), "is damaged"),
        (with_file("run/checkpoint/x", size=2), "is damaged"),
        (with_file("run/checkpoint/x", size=-1), "far more"),
        (with_file("run/checkpoint/x", bytes(2**24)), "far more"),
        (with_file("run/config.json", b'{"ppo": {"gamma": 5}}'), "gamma"),
        (with_file("run/run.json", b"[]"), "run.json is damaged"),
        (without("run/config.json"), "holds no run"),
        (lambda listed, _: listed.update(format=2), "newer version"),
        (lambda listed, _: listed.update(files=3), "damaged"),
        (lambda _, contents: contents.pop("run/run.json"), "damaged"),
    ],
)
def test_a_file_that_is_not_what_it_says_leaves_nothing(
    file: Path, tmp_path: Path, change: Callable[..., None], said: str
) -> None:
    with pytest.raises(SoulsGuiError, match=said):
        import_run(forged(file, change), tmp_path / "there", "", told)
    assert list((tmp_path / "there").iterdir()) == []
    assert not (tmp_path / "outside").exists()


def test_a_run_id_of_others_is_no_path_and_a_torn_file_or_a_full_disk_is_told(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = file.read_bytes()
    forged(file, lambda listed, _: listed.update(run_id="../../up"))
    assert import_run(file, tmp_path / "there", "", told).root == tmp_path / "there" / "imported"
    for data in (whole[: len(whole) // 2], b"", whole[:100] + b"\0" * 200 + whole[300:]):
        file.write_bytes(data)
        with pytest.raises(SoulsGuiError, match="damaged"):
            import_run(file, tmp_path / "there", "", told)
    file.write_bytes(whole)
    monkeypatch.setattr(bundle, "free_disk_bytes", lambda _: 10**6)
    with pytest.raises(SoulsGuiError, match="not enough space"):
        import_run(file, tmp_path / "there", "", told)


@pytest.mark.parametrize("kind", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_what_this_program_does_not_pack_so_is_not_unpacked(file: Path, tmp_path: Path, kind: int) -> None:
    with zipfile.ZipFile(file) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(file, "w", kind) as archive:
        for name, data in contents.items():
            archive.writestr(name, data)
    with pytest.raises(SoulsGuiError, match="not exported by this program"):
        import_run(file, tmp_path / "there", "", told)


def with_many_entries(file: Path) -> None:
    """Let its table of contents name one entry again and again."""
    whole = bytearray(file.read_bytes())
    at = int.from_bytes(whole[-6:-2], "little")
    entry = whole[at : at + 28] + bytes(18)  # without a name
    table = bytes(entry) * 200_000
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, len(table), at, 0)
    file.write_bytes(bytes(whole[:at]) + table + end)


def with_a_list_of_another_size(file: Path) -> None:
    """Let its list unpack to far more than it is said to be."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("soulsrun.json", bytes(2**27))
    whole = bytearray(file.read_bytes())
    at = int.from_bytes(whole[-6:-2], "little")
    whole[at + 24 : at + 28] = struct.pack("<L", 1000)
    file.write_bytes(whole)


@pytest.mark.parametrize(
    ("forge", "said"),
    [(with_many_entries, "table of contents is too long"), (with_a_list_of_another_size, "damaged")],
)
def test_a_file_that_would_fill_the_memory_is_refused_before(
    file: Path, tmp_path: Path, forge: Callable[[Path], None], said: str
) -> None:
    forge(file)
    tracemalloc.start()
    try:
        with pytest.raises(SoulsGuiError, match=said):
            import_run(file, tmp_path / "there", "", told)
        assert tracemalloc.get_traced_memory()[1] < 2**26
    finally:
        tracemalloc.stop()


def test_what_is_locked_is_told_in_words(file: Path, tmp_path: Path) -> None:
    locked, at = bytearray(file.read_bytes()), -1
    while (at := locked.find(b"PK\x01\x02", at + 1)) >= 0:
        locked[at + 8] |= 1
    file.write_bytes(locked)
    with pytest.raises(SoulsGuiError, match="can't be imported"):
        import_run(file, tmp_path / "there", "", told)


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_what_a_link_leads_to_is_handed_to_nobody(run: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "private").write_text("not for others")
    run.network.symlink_to(tmp_path / "private")
    with pytest.raises(SoulsGuiError, match="is a link"):
        export_run(run, tmp_path / "two.soulsrun", told)
    assert not (tmp_path / "two.soulsrun").exists()


def test_what_jobs_left_unfinished_goes_with_the_next_start(file: Path, tmp_path: Path) -> None:
    library = Library(tmp_path / "there")
    goes_on, other = import_run(file, library.root, "", told), import_run(file, library.root, "", told)
    (library.root / f"{UNPACKED}.killed" / "run").mkdir(parents=True)
    for run in (goes_on, other):
        (run.watched / "a1").mkdir(parents=True)
        (run.history / ".9.a1.new").mkdir()
    library.clear(goes_on)
    assert {path.name for path in library.root.iterdir()} == {goes_on.run_id, other.run_id}
    assert (goes_on.watched.exists(), other.watched.exists()) == (False, False)
    assert {path.name for path in goes_on.history.iterdir()} == {"8", ".9.a1.new"}  # its trainer may save
    assert {path.name for path in other.history.iterdir()} == {"8"}
