"""The Qt binding itself: a fault in it would end the window after seconds."""

import ast
import sys
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QImage, QPainter

import soulsgui.gui


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="None is immortal from Python 3.12 on")
def test_painting_does_not_eat_references_to_none() -> None:
    image = QImage(8, 8, QImage.Format.Format_RGB32)
    painter = QPainter(image)
    before = sys.getrefcount(None)
    for _ in range(500):
        painter.setPen(QColor("red"))
        painter.setPen(Qt.PenStyle.NoPen)
    after = sys.getrefcount(None)
    painter.end()
    assert after > before - 50


def test_painters_end_with_their_drawing() -> None:
    """One that lives on in a frame that somebody holds, such as a traceback's, takes the process with it."""
    for path in Path(soulsgui.gui.__file__).parent.rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        made = [node for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func) == "QPainter"]
        ended = [item.context_expr for node in nodes if isinstance(node, ast.With) for item in node.items]
        assert all(call in ended for call in made), path
