"""Which rooms of the window know which others."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import soulsgui.gui
from tests.faults.waiting import LIMIT_S

GUI = Path(soulsgui.gui.__file__).parent


def imported(room: str) -> set[str]:
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in (GUI / room).rglob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {node.module for node in nodes if node.module}


SHARED = ("models", "widgets", "settings", "plotting")
PAGES = ("logs", "runs", "watching", "clients", "overview", "client_mode", "config", "plots", "welcome")


@pytest.mark.parametrize("room", [*SHARED, *PAGES])
def test_a_room_knows_only_those_before_it_and_one_that_pages_share_no_window(room: str) -> None:
    rooms = (*SHARED, *PAGES)
    above = {*rooms[rooms.index(room) + 1 :], *(["shell"] if room in SHARED else [])}
    known = imported(room)
    assert known
    assert not [
        module for module in known if module.startswith("soulsgui.gui.") and module.split(".")[2] in above
    ]


def test_what_a_page_may_ask_of_the_window_knows_no_connection() -> None:
    words = "import sys, soulsgui.gui.shell; sys.exit('soulsgui.gui.shell.connector' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", words], timeout=LIMIT_S).returncode == 0
