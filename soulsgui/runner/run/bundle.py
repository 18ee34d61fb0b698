"""A run as one file, `.soulsrun`: a zip with its settings, versions, curves, models and a report to read.

What stands below `run/` in it becomes the folder of the run where it is imported; the rest is for people. Its
list (`soulsrun.json`) names every file with size and hash. A file comes from anybody: nothing in it is
executed, only files of a run are taken, each of the size and hash that it was said to have.
"""

import csv
import hashlib
import io
import os
import re
import shutil
import sqlite3
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import IO, Any

from pydantic import Field

from soulsgui import __version__
from soulsgui.config.layers import load_run_settings
from soulsgui.config.paths import RunFolder
from soulsgui.config.schema import public_values
from soulsgui.errors import SoulsGuiError, UsageError, printable
from soulsgui.runner.run.checkpoints import copy_whole
from soulsgui.runner.run.library import UNPACKED, Library, refuse_links
from soulsgui.runner.run.record import LIVE_STATES, RunRecord, interrupted
from soulsgui.runner.run.report import report
from soulsgui.runner.status_text import size_words
from soulsgui.system import atomic_write, free_disk_bytes, kept_free_bytes, read_small
from soulsgui.telemetry.export import read_about, read_series
from soulsgui.wire.manifest import ManifestFile
from soulsgui.wire.messages.base import Message

Tell = Callable[[str, float], object]

_FORMAT = 1
_LIST, _RUN = "soulsrun.json", "run/"
_CURVES = ("episodes", "updates", "evaluations")
_LONGEST_LIST_BYTES = 8 * 2**20
_LONGEST_READ_BYTES = 4 * 2**20  # at once: the table of contents of the zip, above all
_MOST_FILES = 20_000
_GREATEST_RATIO = 100  # of what a file unpacks to; more is meant to fill a disk
_CHUNK_BYTES = 2**20
_KINDS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 0x1

_ANY = RunFolder(Path())
_FILES = (
    _ANY.config, _ANY.run, _ANY.attempts, _ANY.spaces, _ANY.versions, _ANY.network, _ANY.store, _ANY.series,
    _ANY.figure, _ANY.changes, _ANY.evaluations,
)  # fmt: skip
"""The files of a run that are taken along, beside its checkpoints."""

_TAKEN = re.compile(
    "|".join(
        [
            *(re.escape(path.name) for path in _FILES),
            rf"(?:{_ANY.checkpoint}|{_ANY.best_model}|(?:{_ANY.manual_saves}|{_ANY.history})/[A-Za-z0-9_-]{{1,64}})/[A-Za-z0-9_]{{1,64}}(?:\.[a-z]{{1,16}})?",
        ]
    )
)
"""What names below `run/` may be: no other file is taken, and none leads anywhere else."""


class _Contents(Message):
    """`soulsrun.json`."""

    format: int
    run_id: str
    version: str = ""
    created: float = 0.0
    files: dict[str, ManifestFile] = Field(max_length=_MOST_FILES)


def export_run(run: RunFolder, target: Path, tell: Tell) -> str:
    """Write the file of a run, which may go on meanwhile; return how it was checked, in words."""
    refuse_links(run)  # what they lead to is not its author's, and would be handed on
    files: dict[str, ManifestFile] = {}
    with (
        zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=3) as archive,
        tempfile.TemporaryDirectory(dir=target.parent) as folder,
    ):
        aside = Path(folder)

        def add(name: str, source: IO[bytes]) -> None:
            digest, size = hashlib.sha256(), 0
            with archive.open(name, "w", force_zip64=True) as entry:
                while chunk := source.read(_CHUNK_BYTES):
                    _check_room(target, len(chunk))
                    digest.update(chunk)
                    size += len(chunk)
                    entry.write(chunk)
            files[name] = ManifestFile(sha256=digest.hexdigest(), size=size)

        for name, path, part in _run_files(run, aside):
            tell(f"writing {name}", part)
            with path.open("rb") as source:
                add(f"{_RUN}{name}", source)
        tell("writing the curves and the report", 0.9)
        if run.store.exists():
            copy = aside / run.store.name
            _copy_store(run.store, copy)
            with copy.open("rb") as source:
                add(f"{_RUN}{run.store.name}", source)
            # Of the copy, so that all in the file is of one moment.
            series = read_about(run) | read_series(copy) | {"run_id": run.run_id}
            for name in _CURVES:
                add(f"curves/{name}.csv", io.BytesIO(_csv(series[name]["columns"])))
        else:
            series = None
        add("report.html", io.BytesIO(_report(run, series).encode()))
        contents = _Contents(
            format=_FORMAT, run_id=run.run_id, version=__version__, created=time.time(), files=files
        )
        archive.writestr(_LIST, contents.to_json())
    tell("reading it again", 0.95)
    with zipfile.ZipFile(target) as archive:
        if (torn := archive.testzip()) is not None:
            raise SoulsGuiError(f"{torn} in it can't be read again.", "Try again, and check the disk.")
    return f"{len(files)} files, {size_words(target.stat().st_size)}, read again without errors"


def _check_room(target: Path, size_bytes: int) -> None:
    if free_disk_bytes(target) < kept_free_bytes(target) + size_bytes:
        what = "There is not enough space on the server's disk for that file."
        raise SoulsGuiError(what, "Free some space there, then try again.")


def _run_files(run: RunFolder, aside: Path) -> Iterator[tuple[str, Path, float]]:
    """Yield each file of a run that is taken along, and which part of all comes before it.

    Of checkpoints the whole ones, of the history those that are pinned; each is copied `aside` first, since
    the trainer may replace it while it is packed.
    """
    for path in _FILES:
        if path != _ANY.store and (run.root / path).is_file():
            yield path.name, run.root / path, 0.0
    found = [
        info
        for info in Library(run.root.parent).checkpoints.list(run)
        if info.valid and info.kind != "previous" and (info.kind != "history" or info.pinned)
    ]
    for number, info in enumerate(found):
        _check_room(aside, info.size_bytes)
        copy = aside / "checkpoint"
        copy_whole(Path(info.path), copy)
        for path in sorted(copy.iterdir()):
            yield f"{info.id}/{path.name}", path, 0.9 * number / len(found)
        shutil.rmtree(copy)


def _copy_store(source: Path, target: Path) -> None:
    """Copy a database as of one moment, whoever writes it meanwhile."""
    with (
        closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)) as old,
        closing(sqlite3.connect(target)) as new,
    ):
        old.backup(new)
        new.execute("PRAGMA journal_mode=DELETE")


def _csv(columns: dict[str, list[Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue().encode()


def _report(run: RunFolder, series: dict[str, Any] | None) -> str:
    pictures: dict[str, bytes] = {}
    if series is not None:
        try:
            from soulsgui.telemetry.figure import draw

            pictures["Curves"] = draw(series)
        except ImportError:  # without matplotlib there is the picture of before, or none
            if run.figure.exists():
                pictures["Curves"] = run.figure.read_bytes()
    library = Library(run.root.parent)
    return report(
        library.record(run),
        public_values(library.settings(run)),
        library.versions(run),
        library.checkpoints.list(run),
        pictures,
        run.network.read_text(encoding="utf-8") if run.network.exists() else "",
    )


class _Bounded(io.BufferedReader):
    """A file of which nothing is read at once that would fill the memory, whatever it says of itself."""

    def read(self, size: int | None = -1, /) -> bytes:
        """Read so many bytes; without a number no more than are read at once."""
        if size is not None and size > _LONGEST_READ_BYTES:
            raise _refusal("its table of contents is too long.")
        return super().read(_LONGEST_READ_BYTES if size is None or size < 0 else size)


def import_run(source: Path, runs: Path, name: str, tell: Tell, aside: str = UNPACKED) -> RunFolder:
    """Take the run of a file into the library in `runs`, whole or not at all.

    It is unpacked `aside`; whoever ends the process that does it removes that.

    Raises:
        UsageError: It is no such file, is damaged, or holds what no run does.
    """
    runs.mkdir(parents=True, exist_ok=True)
    unpacked = RunFolder(runs / aside / "run")
    try:
        with _Bounded(io.FileIO(source)) as file, zipfile.ZipFile(file) as archive:
            contents = _read_contents(archive, source.stat().st_size, runs)
            taken = [one for one in contents.files if one.startswith(_RUN)]
            for number, entry in enumerate(taken):
                tell(f"reading {printable(entry, 100)}", number / len(taken))
                _unpack(archive, entry, contents.files[entry], unpacked.root)
        return _into_library(Library(runs), unpacked, contents.run_id, name)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, KeyError, ValueError) as error:
        raise _refusal(f"it is damaged: {error}") from error
    finally:
        shutil.rmtree(runs / aside, ignore_errors=True)


def _refusal(why: str) -> UsageError:
    return UsageError(f"The file can't be imported: {why}", "Have it exported again: soulsgui runs export")


def _read_contents(archive: zipfile.ZipFile, file_bytes: int, runs: Path) -> _Contents:
    """Read the list of a file, and refuse what may not be unpacked before anything is."""
    if archive.getinfo(_LIST).file_size > _LONGEST_LIST_BYTES:
        raise _refusal("its list is too long.")
    if any(one.flag_bits & _ENCRYPTED or one.compress_type not in _KINDS for one in archive.infolist()):
        raise _refusal("it was not exported by this program.")
    with archive.open(_LIST) as packed:  # `read` would unpack all there is, whatever its size is said to be
        contents = _Contents.model_validate_json(packed.read(_LONGEST_LIST_BYTES))
    if contents.format > _FORMAT:
        raise UsageError(
            f"The file was written by a newer version ({printable(contents.version, 40)}).",
            "Update this one to import it.",
        )
    names = [entry.removeprefix(_RUN) for entry in contents.files if entry.startswith(_RUN)]
    if wrong := [one for one in names if not _TAKEN.fullmatch(one)]:
        raise _refusal(f"“{printable(wrong[0], 100)}” is not a file of a run.")
    if not {_ANY.config.name, _ANY.run.name} <= set(names):
        raise _refusal("it holds no run.")
    size = sum(file.size for file in contents.files.values())
    if any(file.size < 0 for file in contents.files.values()) or size > _GREATEST_RATIO * file_bytes:
        raise _refusal("it would unpack to far more than a run needs.")
    if size > free_disk_bytes(runs) - kept_free_bytes(runs):
        raise UsageError(
            "There is not enough space on the disk of the data folder for that run.", "Free some space there."
        )
    return contents


def _unpack(archive: zipfile.ZipFile, entry: str, told: ManifestFile, folder: Path) -> None:
    """Write one file of a run, as far as it is what was told of it."""
    target = folder / entry.removeprefix(_RUN)
    target.parent.mkdir(parents=True, exist_ok=True)
    digest, left = hashlib.sha256(), told.size
    with archive.open(entry) as packed, target.open("xb") as file:
        while chunk := packed.read(min(_CHUNK_BYTES, left + 1)):
            left -= len(chunk)
            if left < 0:
                break
            digest.update(chunk)
            file.write(chunk)
    if left or digest.hexdigest() != told.sha256:
        raise _refusal(f"{entry} is damaged.")


def _into_library(library: Library, unpacked: RunFolder, run_id: str, name: str) -> RunFolder:
    load_run_settings(unpacked.config)  # a ConfigError names every mistake
    found = RunRecord.read(read_small(unpacked.run))
    if found is None:
        raise _refusal(f"{unpacked.run.name} is damaged.")
    record = interrupted(found) if found.state in LIVE_STATES else found
    base = run_id if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}", run_id) else "imported"
    unpacked.logs.mkdir()
    for number in range(1, 1000):
        run = RunFolder(library.root / (base if number == 1 else f"{base}-{number}"))
        if os.path.lexists(run.root):
            continue
        changes = {"id": run.run_id, "dir": str(run.root), "number": 0, "pinned": False}
        if number > 1:
            # Beside its original it would be counted twice in its experiment or sweep.
            changes |= {"experiment": "", "sweep": ""}
        changes |= {"name": name} if name else {}
        atomic_write(unpacked.run, record.model_copy(update=changes).model_dump_json(indent=1).encode())
        try:
            unpacked.root.rename(run.root)
        except OSError:
            if not os.path.lexists(run.root):
                raise
        else:
            return run
    raise FileExistsError(f"{library.root / base} and a thousand like it exist already")
