"""Draws the program's icon in every size a desktop asks for: `python resources/make_icons.py`."""

import sys
from pathlib import Path

from PIL import Image
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QGuiApplication, QImage, QPainter
from PySide6.QtSvg import QSvgRenderer

SIZES_PX = (16, 24, 32, 48, 64, 128, 256, 512)
ICONS = Path(__file__).parent / "icons"


def draw(source: Path, size_px: int) -> QImage:
    """Return an SVG as a square picture."""
    picture = QImage(size_px, size_px, QImage.Format.Format_ARGB32_Premultiplied)
    picture.fill(Qt.GlobalColor.transparent)
    painter = QPainter(picture)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    QSvgRenderer(str(source)).render(painter, QRectF(0, 0, size_px, size_px))
    painter.end()
    return picture


def pack(folder: Path) -> None:
    """Write the pictures of a folder into one file, `app.ico`, as Windows wants them: up to 256 pixels."""
    pictures = [Image.open(folder / f"app-{size}.png") for size in SIZES_PX if size <= 256]
    sizes = [picture.size for picture in pictures]
    pictures[-1].save(folder / "app.ico", sizes=sizes, append_images=pictures[:-1])


def main() -> None:
    """Write `icons/app/app-<size>.png` for each size, and `icons/app/app.ico`."""
    application = QGuiApplication([sys.argv[0], "-platform", "offscreen"])
    target = ICONS / "app"
    target.mkdir(exist_ok=True)
    for size in SIZES_PX:
        draw(ICONS / "app.svg", size).save(str(target / f"app-{size}.png"))
    pack(target)
    application.quit()


if __name__ == "__main__":
    main()
