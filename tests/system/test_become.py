"""Going on as another program."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from soulsgui.system import become
from tests.faults.waiting import LIMIT_S

SECRET = "a-word-nobody-should-see"

BEFORE = """
import os, sys
from soulsgui.system import become
print(os.getpid(), flush=True)
become([sys.executable, "-c", sys.argv[1]], os.environ | {"SAID": "hello"})
"""
AFTER = """
import os, sys
print(os.getpid(), os.environ["SAID"], flush=True)
sys.stdin.read()
sys.exit(7)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a process of Windows stays what it is")
def test_the_command_line_is_gone_while_the_process_stays() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", BEFORE, AFTER, SECRET],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert child.stdin is not None
    assert child.stdout is not None
    assert int(child.stdout.readline()) == child.pid
    assert child.stdout.readline() == f"{child.pid} hello\n"
    assert SECRET not in " ".join(psutil.Process(child.pid).cmdline())
    child.stdin.close()
    child.stdout.close()
    assert child.wait(LIMIT_S) == 7


def test_on_windows_a_child_takes_over_with_its_exit_code() -> None:
    with pytest.raises(SystemExit) as ended:
        become([sys.executable, "-c", "raise SystemExit(7)"], {}, platform="win32")
    assert ended.value.code == 7
