"""Killed while saving (R2): never a checkpoint that can't be loaded, never a lost older one."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np
import pytest

from soulsgui.config.paths import RunFolder
from soulsgui.training.checkpoint import newest_resumable, read_checkpoint
from tests.faults import checkpoint_writer
from tests.faults.report import Report
from tests.faults.waiting import LIMIT_S

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills are made of POSIX processes")

_LONGEST_LIFE_S = 0.03


@pytest.fixture
def nursery() -> Iterator["subprocess.Popen[str]"]:
    root = Path(checkpoint_writer.__file__).parents[2]
    process = subprocess.Popen(
        [sys.executable, checkpoint_writer.__file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(root)},
    )
    yield process
    process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0


def _read(output: IO[str], kind: str) -> tuple[str, list[int]]:
    """Read up to a line of a kind; return it and the updates that were done before it."""
    done = []
    for line in output:
        word, _, rest = line.strip().partition(" ")
        if word == "done":
            done.append(int(rest))
        if word == kind:
            return rest, done
    raise AssertionError("the writer ended by itself")


@pytest.mark.parametrize(("kills", "torn_at_least"), [(25, 1), pytest.param(200, 21, marks=pytest.mark.slow)])
def test_kills_leave_a_whole_checkpoint_each(
    nursery: "subprocess.Popen[str]", tmp_path: Path, kills: int, torn_at_least: int, report: Report
) -> None:
    run = RunFolder(tmp_path)
    assert nursery.stdin is not None
    assert nursery.stdout is not None
    rng = random.Random(7)
    killed, written, lost, torn = 0, 0, 0, 0
    # On a busy machine one may be killed before it has begun: until enough were put to the test.
    while killed < kills or torn < torn_at_least:
        killed += 1
        nursery.stdin.write(f"{run.root} {written + 1}\n")
        nursery.stdin.flush()
        pid, before = _read(nursery.stdout, "pid")
        _, early = _read(nursery.stdout, "done") if written == 0 else ("", [])
        time.sleep(rng.uniform(0, _LONGEST_LIFE_S))  # a kill comes at any moment
        os.kill(int(pid), signal.SIGKILL)
        _, late = _read(nursery.stdout, "dead")
        newest_told = max([written, *before, *early, *late])
        torn += any(path.name.startswith(".") for path in run.root.iterdir())
        path = newest_resumable(run)
        assert path is not None, f"nothing is left after update {newest_told}"
        found = read_checkpoint(path)
        assert found.info.updates >= newest_told, "an older checkpoint was lost"
        assert set(np.unique(found.agent["adam.exp_avg"])) == {found.info.updates}
        assert set(np.unique(found.weights["policy.0.weight"])) == {found.info.updates}
        lost += found.info.updates - newest_told
        older = [read_checkpoint(one).info.updates for one in run.older if one.exists()]
        assert all(updates < found.info.updates for updates in older), "an older one took its place"
        assert {path.name for path in run.root.iterdir()} <= {"checkpoint", "previous"}
        written = found.info.updates
    report.injected(f"{killed} kills of a writer of checkpoints, {torn} of them in the middle of a save")
    report.lost(0, f"of {written} checkpoints; {lost} were saved unsaid")
