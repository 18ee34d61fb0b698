"""Files and folders that are private, or whole at every moment, also across a power cut."""

import errno
import os
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from soulsgui.system.machine import free_disk_bytes, no_names_left

# An open reader makes Windows refuse a replacement for a moment: so often, so many seconds apart.
_REPLACE_TRIES = 50
_REPLACE_PAUSE_S = 0.02

_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
_WRONG_KIND = {
    errno.EISDIR: ("a folder", "file"),
    errno.ENOTDIR: ("below a file", "folder"),
    errno.EEXIST: ("a file", "folder"),  # nothing here is to be made that may not be there, but folders
}
_ELSEWHERE = "choose another folder: --data-dir DIR, --config-dir DIR."

_SMALL = 16 * 2**20  # bytes; the most is taken by spaces that tell the limits of each pixel


def make_private(path: Path, platform: str = sys.platform) -> None:
    """Take every right from others: 0600, 0700 for a folder; on Windows a profile is private as it is."""
    if platform != "win32":
        path.chmod(0o700 if path.is_dir() else 0o600)


def is_private(path: Path, platform: str = sys.platform) -> bool:
    """Whether nobody else (but root) can read or write it; always true on Windows (see `make_private`)."""
    if platform == "win32":
        return True
    status = path.stat()
    return status.st_mode & 0o077 == 0 and status.st_uid in (os.geteuid(), 0)


def others_may_write(path: Path, platform: str = sys.platform) -> bool:
    """Whether everybody on this computer can put files there; never on Windows (see `make_private`)."""
    return platform != "win32" and path.stat().st_mode & 0o002 != 0


def read_small(path: Path, most_bytes: int = _SMALL) -> bytes:
    """Return the contents of a small file, of which anything may stand in its place.

    Raises:
        shutil.SpecialFileError: It is a pipe or a device: reading it might never end.
        OSError: There is none, it is larger (`errno.EFBIG`), or it can't be read.
    """
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise shutil.SpecialFileError(f"{path} is a pipe or a device, where a file belongs.")
    with path.open("rb") as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return data


class AtomicFile:
    """A file written beside its place, which it takes with `commit`; without one the older file stays.

    Readers and power cuts find the old or the new, never a mixture. An existing file keeps its mode; a
    symbolic link stays and its target is replaced. A private one is at no moment readable by others, whatever
    stood there before.
    """

    def __init__(self, path: Path, private: bool = False) -> None:
        self._path = path if private else path.resolve()
        self._aside = self._path.with_name(f".{self._path.name}.{secrets.token_hex(6)}.tmp")
        keeps_mode = not private and self._path.exists()
        self._kept_mode = stat.S_IMODE(self._path.stat().st_mode) if keeps_mode else None
        self._create_mode = 0o600 if private else 0o666 if self._kept_mode is None else self._kept_mode

    def __enter__(self) -> Self:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        try:
            self._file = os.fdopen(os.open(self._aside, flags, self._create_mode), "wb")
        except OSError as error:
            error.filename = str(self._path)  # which a user knows
            raise
        return self

    def write(self, data: bytes) -> None:
        """Add to it."""
        with self._naming_it():
            self._file.write(data)

    def commit(self) -> None:
        """Bring what was written to the disk, and to its place."""
        with self._naming_it():
            if self._kept_mode is not None:
                self._aside.chmod(self._kept_mode)  # the umask may have taken some of it
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()  # Windows renames no open file
            replace(self._aside, self._path)
        sync_folder(self._path.parent)

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # what could not be written before can't be now
            self._file.close()
        self._aside.unlink(missing_ok=True)

    @contextmanager
    def _naming_it(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.filename is None:
                error.filename = str(self._path)  # a write knows its descriptor alone
            raise


def atomic_write(path: Path, data: bytes | Iterable[bytes], private: bool = False) -> None:
    """Replace the contents of a file whole or not at all (see `AtomicFile`); large ones come in parts."""
    with AtomicFile(path, private) as file:
        for part in (data,) if isinstance(data, bytes) else data:
            file.write(part)
        file.commit()


def write_private(path: Path, data: bytes) -> None:
    """Like `atomic_write`, for secrets: at no moment readable by others, whatever stood there before."""
    atomic_write(path, data, private=True)


def no_room(error: OSError) -> bool:
    """Whether an error of the file system means that the disk, or the user's share of it, is full."""
    return error.errno in _FULL


def no_room_words(folder: Path) -> str:
    """Say that a disk is full: where, and how much of it is free."""
    return f"no space left on {folder} ({_left_words(folder)})"


def _left_words(path: Path) -> str:
    """Return what is left of a disk in words: one with room may still take no other file."""
    if no_names_left(path):
        return "out of inodes: it holds all files it can"
    return f"{free_disk_bytes(path) / 1e6:.1f} MB free"


def in_words(error: OSError) -> str:
    """Return an error of the file system in words: what happened, at which place, and what to do."""
    return "\n".join(part for part in explained(error) if part)


def explained(error: OSError) -> tuple[str, str]:
    """Return what an error of the file system is, with its place, and what to do about it (may be empty)."""
    place = str(error.filename) if error.filename is not None else ""
    if no_room(error):
        where = free = ""
        if error.filename is not None:
            where = f" to write {place}"
            free = f" ({_left_words(Path(os.fsdecode(error.filename)))})"
        return f"There is no space left on the disk{where}{free}.", f"Free some space there, or {_ELSEWHERE}"
    if error.errno in _FORBIDDEN:
        what = f"{place} can't be used" if place else "A file can't be used"
        return f"{what}: {error.strerror or 'not permitted'}.", f"Fix its permissions, or {_ELSEWHERE}"
    if error.errno in _WRONG_KIND:
        # What was to be put in a place names that place last.
        wrong = error.filename2 if error.filename2 is not None else place
        is_what, wants = _WRONG_KIND[error.errno]
        return f"{wrong} is {is_what}, where a {wants} belongs.", f"Move it elsewhere, or {_ELSEWHERE}"
    if error.errno == errno.EXDEV:
        what = f"{place} can't be moved to {error.filename2}: that is on another file system."
        return what, f"Keep the whole data folder on one, or {_ELSEWHERE}"
    if isinstance(error, shutil.SpecialFileError):
        return str(error), f"Move it elsewhere, or {_ELSEWHERE}"
    if error.errno == errno.EFBIG:
        return f"{place or 'A file'} is too large.", f"Move it elsewhere, or {_ELSEWHERE}"
    if error.errno == errno.ENAMETOOLONG:
        return (
            f"This path is too long for the system: {place or 'unknown'}.",
            f"Use a shorter name, or {_ELSEWHERE}",
        )
    return str(error), ""


def replace(source: Path, target: Path, platform: str = sys.platform) -> None:
    """`os.replace`, patient on Windows, where a reader that has the target open delays it (up to 1 s)."""
    tries = _REPLACE_TRIES if platform == "win32" else 1
    for left in reversed(range(tries)):
        try:
            source.replace(target)
            return
        except PermissionError:
            if left == 0:
                raise
            time.sleep(_REPLACE_PAUSE_S)


def sync_folder(path: Path, platform: str = sys.platform) -> None:
    """Make names created, renamed or removed in a folder survive a power cut (Windows does so by itself)."""
    if platform != "win32":
        _sync(path, os.O_RDONLY)


def sync_tree(path: Path, platform: str = sys.platform) -> None:
    """Bring every file and folder below and including `path` to the disk."""
    # Windows syncs only through a handle that may write; POSIX needs none.
    flags = os.O_RDWR if platform == "win32" else os.O_RDONLY
    for folder, _, names in os.walk(path):
        for name in names:
            _sync(Path(folder, name), flags)
        sync_folder(Path(folder), platform)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_dir(new: Path, target: Path, platform: str = sys.platform, keep: Sequence[Path] = ()) -> None:
    """Put the finished folder `new` in the place of `target` (same file system), which need not exist.

    A symbolic link there gives way; what it leads to stays as it is. The older one goes into the first place
    of `keep`, what stands there into the next, and the last one is removed; without places the older one is.
    A folder appears whole or not at all. Between the two renames of a replacement the older one stands beside
    under the name `.<name>.old`; `recover_dir` brings it back after a crash at that moment.
    """
    recover_dir(target, platform)
    sync_tree(new, platform)
    older = _older(target)
    if os.path.lexists(target):
        replace(target, older, platform)
    try:
        replace(new, target, platform)
    except OSError:
        recover_dir(target, platform)
        raise
    sync_folder(target.parent, platform)
    if keep and older.is_dir() and not older.is_symlink():
        keep[0].parent.mkdir(parents=True, exist_ok=True)
        replace_dir(older, keep[0], platform, keep[1:])
    else:
        _remove_dir(older)


def recover_dir(target: Path, platform: str = sys.platform) -> bool:
    """Undo or finish a `replace_dir` that a crash interrupted; return whether the older one was put back."""
    older = _older(target)
    if not os.path.lexists(older):
        return False
    if os.path.lexists(target):
        _remove_dir(older)
        return False
    replace(older, target, platform)
    sync_folder(target.parent, platform)
    return True


def find_dir(target: Path) -> Path | None:
    """Where a folder written by `replace_dir` is now: in its place or, between two renames, beside it."""
    return next((place for place in (target, _older(target)) if place.is_dir()), None)


def _older(target: Path) -> Path:
    return target.with_name(f".{target.name}.old")


def _remove_dir(path: Path) -> None:
    """Remove what stands there; of a link the link alone, for what it leads to is not ours."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)
