"""R34, R40 to R42 by their full counts: what strangers name, damage, say and ask, a thousand times over."""

import asyncio
import importlib
import inspect
import random
import sys
import unicodedata
from pathlib import Path

import pytest

from soulsgui.config.paths import RunFolder
from soulsgui.environments.make import wrapper_faults
from soulsgui.errors import printable
from soulsgui.runner.audit import AUDIT_FILE, AuditLog
from soulsgui.training.checkpoint import newest_resumable, write_checkpoint
from soulsgui.wire.control import ClientParams
from soulsgui.wire.manifest import MANIFEST, NOTE, read_manifest
from tests.faults.checkpoint_writer import checkpoint
from tests.faults.report import Report

FLIPS = 500
TEXTS = 50_000
COMMANDS = 5000  # more than the log keeps
MODULES = (
    "os", "sys", "subprocess", "shutil", "operator", "functools", "builtins", "importlib", "runpy", "code",
    "pty", "pickle", "shelve", "ctypes", "socket", "threading", "multiprocessing", "unittest.mock", "types",
    "timeit", "tempfile", "pathlib", "webbrowser", "platform", "pdb", "cProfile", "trace", "weakref",
    "contextlib", "asyncio", "numpy", "gymnasium", "gymnasium.vector", "gymnasium.spaces", "soulsgui.system",
    "soulsgui.process",
)  # fmt: skip


@pytest.mark.slow
def test_no_callable_of_a_library_is_taken_for_a_wrapper(report: Report) -> None:
    named = [
        f"{module}:{name}"
        for module in MODULES
        for name, value in vars(importlib.import_module(module)).items()
        if callable(value) and not (inspect.isclass(value) and value.__module__.startswith("gymnasium"))
    ]
    report.injected(f"{len(named)} callables named as wrappers")
    taken = [name for name in named if not wrapper_faults([name])]
    report.lost(len(taken), "of them taken")
    assert taken == []
    assert len(named) > 1000


@pytest.mark.slow
@pytest.mark.allow_warnings
def test_a_bit_that_flips_anywhere_in_a_checkpoint_is_found(tmp_path: Path, report: Report) -> None:
    run, rng = RunFolder(tmp_path), random.Random(1)
    for update in range(1, 4):
        write_checkpoint(run.checkpoint, checkpoint(update, size=10), run.older)
    files = [path for path in sorted(run.checkpoint.iterdir()) if path.name != NOTE]
    assert len(files) >= 4
    manifest = read_manifest(run.checkpoint)
    for number in range(FLIPS):
        path = files[number % len(files)]
        whole = path.read_bytes()
        place = rng.randrange(8 * len(whole))
        harmed = bytearray(whole)
        harmed[place // 8] ^= 1 << place % 8
        path.write_bytes(harmed)
        if newest_resumable(run) == run.checkpoint:  # a flip in the name of the manifest's own hash
            assert path.name == MANIFEST, (path, place)
            assert read_manifest(path.parent) == manifest, place
        else:
            assert newest_resumable(run) == run.older[0], (path, place)
        path.write_bytes(whole)
    report.injected(f"{FLIPS} flipped bits")
    assert newest_resumable(run) == run.checkpoint


@pytest.mark.slow
def test_whatever_is_said_is_text_of_a_sane_length(report: Report) -> None:
    rng = random.Random(2)
    for _ in range(TEXTS):
        said = "".join(
            chr(rng.choice((rng.randrange(32, 0x250), rng.randrange(sys.maxunicode + 1)))) for _ in range(30)
        )
        shown = printable(said, 20)
        assert len(shown) <= 20
        assert {unicodedata.category(one) for one in shown}.isdisjoint({"Cc", "Cf", "Cs", "Zl", "Zp"}), ascii(
            said
        )
    report.injected(f"{TEXTS} texts of any characters")


@pytest.mark.slow
async def test_however_many_commands_are_given_at_once_each_is_in_the_audit_log(
    tmp_path: Path, report: Report
) -> None:
    audit = AuditLog(tmp_path / AUDIT_FILE, lambda entry: None)

    async def give(number: int) -> None:
        entry = audit.begin("clients.stop", ClientParams(client=f"c{number}"), "curl/8", "127.0.0.1:5")
        await asyncio.sleep(0)
        audit.end(entry)

    await asyncio.gather(*map(give, range(COMMANDS)))
    report.injected(f"{COMMANDS} commands at once")
    kept = audit.since(0, 2 * COMMANDS)
    assert [(one.number, one.outcome) for one in kept[-1000:]] == [
        (number, "done") for number in range(COMMANDS - 999, COMMANDS + 1)
    ]
