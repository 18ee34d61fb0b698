"""The Qt binding itself: a fault in it would end the window after seconds."""

import sys

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QImage, QPainter


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
