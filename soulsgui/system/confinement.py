"""Keeping this process, and all that it starts, from writing outside one folder: Landlock, on Linux alone."""

import ctypes
import errno
import os
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

from soulsgui.system.processes import descends_from

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every kind of processor
_TELL_VERSION, _PATH_BENEATH = 1, 1
_NO_NEW_PRIVILEGES = 38

_WRITE_FILE = 1 << 1
# Its rights that write, by the version that knows them first: files written, made and removed; moved to
# another folder; emptied.
_WRITING = {1: _WRITE_FILE | 0b1_1111_1111 << 4, 2: 1 << 13, 3: 1 << 14}
_WHOLE = 3  # before that, files elsewhere can still be emptied

_OF_A_CLIENT = "A program that plays for a server, or was started by one, may not give commands."

_DEVICES, _SHARED_MEMORY = Path("/dev"), Path("/dev/shm")


class _Rule(ctypes.Structure):
    """What may be done beneath a folder, as the kernel reads it."""

    _pack_ = 1
    _fields_ = (("rights", ctypes.c_uint64), ("folder", ctypes.c_int32))


def why_not_confined(platform: str = sys.platform, libc: Any = None) -> str:
    """Return why a process can't be kept from writing elsewhere on this system; empty when it can."""
    if platform != "linux":
        return "Only Linux can keep it to a folder."
    version = _version(libc or _libc())
    if not version:
        return "This system can't keep it to a folder: its kernel has no Landlock."
    if version < _WHOLE:
        return "This system can't keep it to a folder: its kernel is older than Linux 6.2."
    return ""


def confine(folder: Path, platform: str = sys.platform, libc: Any = None) -> None:
    """Let this thread, and all that it starts, write beneath a folder and to devices alone.

    Temporary files go there, too, and no program gives them rights that its user has not. Nothing undoes it.
    What the system can't do (`why_not_confined`) is left out. To be called before there are other threads.
    """
    if platform != "linux":
        return
    libc = libc or _libc()
    temporary = folder / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    os.environ["TMPDIR"], tempfile.tempdir = str(temporary), None
    _checked(libc.prctl(_NO_NEW_PRIVILEGES, *map(ctypes.c_ulong, (1, 0, 0, 0))))
    version = _version(libc)
    if version:
        _restrict(folder, sum(rights for least, rights in _WRITING.items() if least <= version), libc)


def why_no_commands(pid: int | None, clients: Collection[int], platform: str = sys.platform) -> str:
    """Return why a process may give this one no commands; empty when it may. None that clients started may.

    Args:
        pid: The process that asks; None where the system does not tell.
        clients: Processes of clients.
    """
    if pid is None:
        # On Linux a program hides itself, or is gone before the answer: whoever means well does neither.
        return "The system does not say which program gives the command." if platform == "linux" else ""
    try:
        # Who is confined can also leave its family; but nothing takes this away from it.
        confined = platform == "linux" and _has_no_privileges(pid) > _has_no_privileges(os.getpid())
    except OSError:
        return "The program that gives the command has ended."
    return _OF_A_CLIENT if confined or any(descends_from(pid, client) for client in clients) else ""


def _has_no_privileges(pid: int) -> bool:
    return b"\nNoNewPrivs:\t1\n" in Path(f"/proc/{pid}/status").read_bytes()


def _restrict(folder: Path, rights: int, libc: Any) -> None:
    handled = ctypes.c_uint64(rights)
    ruleset = _call(libc, _CREATE_RULESET, ctypes.byref(handled), ctypes.sizeof(handled), 0)
    try:
        for place, allowed in ((folder, rights), (_SHARED_MEMORY, rights), (_DEVICES, _WRITE_FILE)):
            if place.exists():
                _allow(ruleset, place, allowed, libc)
        try:
            _call(libc, _RESTRICT_SELF, ruleset, 0)
        except OSError as error:
            # A process that took the place of a restricted one is restricted already: up to 16 times.
            if error.errno != errno.E2BIG:
                raise
    finally:
        os.close(ruleset)


def _allow(ruleset: int, folder: Path, rights: int, libc: Any) -> None:
    descriptor = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = _Rule(rights, descriptor)
        _call(libc, _ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(descriptor)


def _version(libc: Any) -> int:
    """Return the version of Landlock here; 0 where there is none, or none that may be used."""
    try:
        return _call(libc, _CREATE_RULESET, None, 0, _TELL_VERSION)
    except OSError:
        return 0


def _call(libc: Any, number: int, *words: Any) -> int:
    wide = (ctypes.c_long(word) if isinstance(word, int) else word for word in words)
    return _checked(libc.syscall(ctypes.c_long(number), *wide))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)
