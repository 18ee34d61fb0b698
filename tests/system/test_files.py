import errno
import os
import shutil
import stat
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from soulsgui.system import (
    AtomicFile,
    atomic_write,
    files,
    in_words,
    is_private,
    make_private,
    no_room_words,
    read_small,
    recover_dir,
    replace,
    replace_dir,
    sync_tree,
    write_private,
)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such files")
@pytest.mark.timeout(10)
def test_a_small_file_is_read_and_what_is_none_is_refused_at_once(tmp_path: Path) -> None:
    names = ("file", "folder", "pipe", "device", "nothing")
    file, folder, pipe, device, nothing = (tmp_path / name for name in names)
    file.write_bytes(b"12345")
    folder.mkdir()
    os.mkfifo(pipe)
    device.symlink_to("/dev/zero")
    assert read_small(file) == read_small(file, 5) == b"12345"
    for path, most, kind, words in (
        (file, 4, OSError, "is too large."),
        (folder, 9, IsADirectoryError, "is a folder, where a file belongs."),
        (pipe, 9, shutil.SpecialFileError, "is a pipe or a device, where a file belongs."),
        (device, 9, shutil.SpecialFileError, "is a pipe or a device, where a file belongs."),
    ):
        with pytest.raises(kind) as caught:
            read_small(path, most)
        assert in_words(caught.value).startswith(f"{path} {words}\nMove it elsewhere")
    with pytest.raises(FileNotFoundError):
        read_small(nothing)


@pytest.mark.parametrize("write", [atomic_write, write_private])
def test_contents_are_replaced_whole_or_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write) -> None:
    def fail(source: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    file = tmp_path / "state.json"
    write(file, b"old")
    write(file, b"new")
    monkeypatch.setattr(files, "replace", fail)
    with pytest.raises(OSError, match="No space left"):
        write(file, b"newer")
    assert file.read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


def test_what_ends_in_the_middle_leaves_the_older_file_and_nothing_beside_it(tmp_path: Path) -> None:
    def broken() -> Iterator[bytes]:
        yield b"ne"
        raise ConnectionResetError(104, "Connection reset by peer")

    file = tmp_path / "run.soulsrun"
    atomic_write(file, iter((b"o", b"ld")))
    with pytest.raises(ConnectionResetError) as caught:
        atomic_write(file, broken())
    assert caught.value.filename is None  # it was not the file that failed
    with AtomicFile(file) as not_kept:
        not_kept.write(b"newer")
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]


def test_readers_never_see_a_mixture(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    versions = {bytes([65 + index]) * 100_000 for index in range(20)}
    atomic_write(file, b"A" * 100_000)
    seen: set[bytes] = set()
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.add(file.read_bytes())

    reader = threading.Thread(target=read)
    reader.start()
    for version in sorted(versions):
        atomic_write(file, version)
    done.set()
    reader.join()
    assert seen
    assert seen <= versions


def test_a_secret_is_private_from_its_first_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modes: list[int] = []
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: modes.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
    )
    before = os.umask(0)
    try:
        write_private(tmp_path / "redis.secret", b"requirepass x")
    finally:
        os.umask(before)
    assert modes[0] == 0o600
    assert is_private(tmp_path / "redis.secret")


def test_a_secret_is_private_whatever_stood_in_its_place(tmp_path: Path) -> None:
    readable, link, elsewhere = (tmp_path / name for name in ("readable", "link", "elsewhere"))
    readable.touch(0o644)
    elsewhere.write_bytes(b"untouched")
    link.symlink_to(elsewhere)
    for secret in (readable, link):
        write_private(secret, b"requirepass x")
        assert mode(secret) == 0o600
        assert not secret.is_symlink()
    assert elsewhere.read_bytes() == b"untouched"


@pytest.mark.parametrize("kept", [0o600, 0o640, 0o664])
def test_an_existing_file_keeps_its_mode_and_a_link_its_target(tmp_path: Path, kept: int) -> None:
    real, link = tmp_path / "dotfiles.yaml", tmp_path / "config.yaml"
    real.touch()
    real.chmod(kept)
    link.symlink_to(real)
    atomic_write(link, b"seed: 3")
    assert link.is_symlink()
    assert (real.read_bytes(), mode(real)) == (b"seed: 3", kept)


@pytest.mark.parametrize("others_may", [0o640, 0o604, 0o620])
def test_a_file_that_others_may_touch_is_not_private_until_made_so(tmp_path: Path, others_may: int) -> None:
    file = tmp_path / "secret"
    file.touch()
    file.chmod(others_may)
    assert not is_private(file)
    assert is_private(file, platform="win32")
    make_private(file)
    assert is_private(file)


def test_a_private_folder_can_still_be_entered_and_windows_leaves_modes_alone(tmp_path: Path) -> None:
    folder = tmp_path / "server"
    folder.mkdir()
    folder.chmod(0o755)
    make_private(folder, platform="win32")
    assert mode(folder) == 0o755
    make_private(folder)
    assert mode(folder) == 0o700


@pytest.mark.parametrize(
    ("platform", "refusals", "tries"), [("win32", 2, 3), ("win32", 1000, 50), ("linux", 1000, 1)]
)
def test_windows_waits_a_while_for_a_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str, refusals: int, tries: int
) -> None:
    (tmp_path / "new").write_bytes(b"new")
    calls: list[Path] = []
    real = Path.replace

    def busy(self: Path, target: Path) -> Path:
        calls.append(self)
        if len(calls) <= refusals:
            raise PermissionError(13, "in use")
        return real(self, target)

    monkeypatch.setattr(Path, "replace", busy)
    monkeypatch.setattr(files.time, "sleep", lambda seconds: None)
    with nullcontext() if refusals < tries else pytest.raises(PermissionError):
        replace(tmp_path / "new", tmp_path / "state", platform)
    assert len(calls) == tries
    assert (tmp_path / "state").exists() == (refusals < tries)


def make_folder(path: Path, contents: str) -> Path:
    (path / "sub").mkdir(parents=True)
    (path / "sub" / "weights").write_text(contents)
    return path


def contents_of(path: Path) -> str:
    return (path / "sub" / "weights").read_text()


@pytest.mark.parametrize("platform", ["linux", "win32"])
@pytest.mark.parametrize("link", [None, "dangling", "elsewhere"])
def test_a_folder_appears_whole_in_place_of_an_older_one_or_of_a_link_whose_end_stays(
    tmp_path: Path, platform: str, link: str | None
) -> None:
    target = tmp_path / "checkpoint"
    kept = {make_folder(tmp_path / "elsewhere", "kept")} if link == "elsewhere" else set()
    if link is not None:
        target.symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    for contents in ("1", "2"):
        replace_dir(make_folder(tmp_path / "new", contents), target, platform)
        assert not target.is_symlink()
        assert contents_of(target) == contents
        assert set(tmp_path.iterdir()) == {target, *kept}
    assert all(contents_of(path) == "kept" for path in kept)


def test_a_failed_replacement_puts_the_older_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_folder(tmp_path / "checkpoint", "1")
    new = make_folder(tmp_path / "new", "2")
    real = files.replace

    def fail_for_new(source: Path, target: Path, platform: str) -> None:
        if source == new:
            raise OSError(5, "Input/output error")
        real(source, target, platform)

    monkeypatch.setattr(files, "replace", fail_for_new)
    with pytest.raises(OSError, match="Input/output"):
        replace_dir(new, tmp_path / "checkpoint")
    assert contents_of(tmp_path / "checkpoint") == "1"
    assert contents_of(new) == "2"


def test_after_a_crash_the_older_one_comes_back_only_where_the_newer_is_missing(tmp_path: Path) -> None:
    older, target = tmp_path / ".checkpoint.old", tmp_path / "checkpoint"
    make_folder(older, "1")
    assert recover_dir(target)
    assert not recover_dir(target)
    make_folder(older, "0")
    assert not recover_dir(target)
    assert contents_of(target) == "1"
    assert list(tmp_path.iterdir()) == [target]
    target.rename(tmp_path / "elsewhere")
    older.symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    assert recover_dir(target)
    assert target.readlink() == tmp_path / "elsewhere"


def test_every_file_and_folder_reaches_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_folder(tmp_path / "new", "1")
    (folder / "manifest.json").touch()
    synced: set[Path] = set()
    monkeypatch.setattr(os, "fsync", lambda number: synced.add(Path(f"/proc/self/fd/{number}").readlink()))
    sync_tree(folder)
    assert synced == {folder, folder / "sub", folder / "sub" / "weights", folder / "manifest.json"}


def test_a_full_disk_is_told_with_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left") as caught:
        atomic_write(tmp_path / "run.json", b"{}")
    said = in_words(caught.value)
    assert str(tmp_path / "run.json") in said
    assert "MB free" in said
    assert "--data-dir" in said
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_takes_no_file_is_told_with_the_file_that_was_to_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "config.yaml"
    with pytest.raises(NotADirectoryError) as raised:
        atomic_write(path, b"")
    assert raised.value.filename == str(path)


def test_a_disk_without_inodes_is_not_called_one_without_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("soulsgui.system.files.no_names_left", lambda path: path == tmp_path)
    assert (
        no_room_words(tmp_path) == f"no space left on {tmp_path} (out of inodes: it holds all files it can)"
    )
    assert "(out of inodes" in in_words(OSError(errno.ENOSPC, "No space left on device", str(tmp_path)))
    assert "MB free" in no_room_words(tmp_path / "elsewhere")


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EACCES, "can't be used"),
        (errno.EROFS, "can't be used"),
        (errno.ENAMETOOLONG, "too long"),
        (errno.EDQUOT, "no space left"),
    ],
)
def test_refusals_of_the_file_system_name_place_and_remedy(number: int, words: str) -> None:
    said = in_words(OSError(number, os.strerror(number), "/data/runs"))
    assert "/data/runs" in said
    assert words in said
    assert "--data-dir" in said
    assert "Errno" not in said


@pytest.mark.skipif(os.name == "nt", reason="Windows calls this a lack of rights")
def test_a_folder_in_place_of_a_file_is_named_also_by_who_would_replace_it(tmp_path: Path) -> None:
    taken = tmp_path / "server.json"
    (taken / "something").mkdir(parents=True)
    for attempt in (taken.read_bytes, lambda: atomic_write(taken, b"{}")):
        with pytest.raises(IsADirectoryError) as caught:
            attempt()
        assert in_words(caught.value).startswith(f"{taken} is a folder, where a file belongs.\nMove it")
    with pytest.raises(NotADirectoryError) as caught:
        Path(os.devnull, "below").read_bytes()
    assert "is below a file, where a folder belongs" in in_words(caught.value)
    (tmp_path / "data").touch()
    with pytest.raises(FileExistsError) as caught:
        (tmp_path / "data").mkdir(exist_ok=True)
    assert in_words(caught.value).startswith(f"{tmp_path / 'data'} is a file, where a folder belongs.")
