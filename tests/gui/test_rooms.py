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


@pytest.mark.parametrize(
    ("room", "unknown"),
    [
        ("widgets", ("shell", "config", "settings", "plotting")),
        ("models", ("shell", "config", "settings", "plotting", "widgets")),
        ("plotting", ("shell", "config")),
        ("settings", ("shell", "config", "plotting")),
    ],
)
def test_arrows_between_rooms_run_down(room: str, unknown: tuple[str, ...]) -> None:
    known = imported(room)
    assert known
    above = tuple(f"soulsgui.gui.{name}" for name in unknown)
    assert not [module for module in known if module.startswith(above)]


def test_what_a_page_may_ask_of_the_window_knows_no_connection() -> None:
    words = "import sys, soulsgui.gui.shell; sys.exit('soulsgui.gui.shell.connection' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", words], timeout=LIMIT_S).returncode == 0
