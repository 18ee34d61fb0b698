"""Bundled icons, drawn as SVG in one colour and recoloured for the theme.

A button or an action is dressed once (`dress`); when the theme changes, `redress` gives it the icon again
in the new colours. The rest paints `pixmap` itself and repaints on `QEvent.PaletteChange`.
"""

from collections.abc import Iterable
from functools import lru_cache

from PySide6.QtCore import QByteArray, QObject, QRectF, QSize, Qt
from PySide6.QtGui import QAction, QColor, QGuiApplication, QIcon, QPainter, QPalette, QPixmap
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtWidgets import QAbstractButton, QWidget

from soulsgui.config.paths import shipped
from soulsgui.gui.colours import Colours, Tone, colours_for

# Every size a table or a menu asks for, and twice that for fine screens.
_SIZES_PX = (16, 20, 24, 32, 40, 48, 64)
_SCALES = (1.0, 1.25, 1.5, 2.0)
BESIDE = 1.25  # how wide an icon beside words is: Qt alone puts them too close to it
_APP_SIZES_PX = (16, 24, 32, 48, 64, 128, 256, 512)
_NAME = "iconName"
_TONE = "iconTone"


def palette_colours(palette: QPalette) -> Colours:
    """Return the set of colours that belongs to a palette: dark when its window colour is."""
    return colours_for(palette.color(QPalette.ColorRole.Window).lightness() < 128)


def colours_of(widget: QWidget) -> Colours:
    """Return the colours a widget is drawn with now."""
    return palette_colours(widget.palette())


@lru_cache(maxsize=256)
def _source(name: str) -> str:
    return shipped("resources", "icons", f"{name}.svg").read_text(encoding="utf-8")


@lru_cache(maxsize=2048)
def _render(name: str, colour: str, size_px: int, wide: float = 1.0) -> QPixmap:
    renderer = QSvgRenderer(QByteArray(_source(name).replace("currentColor", colour).encode()))
    picture = QPixmap(round(size_px * wide), size_px)
    picture.fill(Qt.GlobalColor.transparent)
    with QPainter(picture) as painter:
        renderer.render(painter, QRectF(0, 0, size_px, size_px))
    return picture


def pixmap(name: str, colour: str, size: int, ratio: float = 1.0) -> QPixmap:
    """Return an icon as a picture."""
    picture = QPixmap(_render(name, colour, round(size * ratio)))
    picture.setDevicePixelRatio(ratio)
    return picture


def icon(name: str, colours: Colours, tone: Tone = Tone.TEXT) -> QIcon:
    """Return an icon in the colour of a tone, greyed where it is disabled."""
    return _icon(name, colours.tones[tone], colours.disabled)


@lru_cache(maxsize=512)
def _icon(
    name: str, colour: str, disabled: str, sizes: tuple[int, ...] = _SIZES_PX, wide: float = 1.0
) -> QIcon:
    made = QIcon()
    for size in sizes:
        for mode in (QIcon.Mode.Normal, QIcon.Mode.Selected):
            made.addPixmap(_render(name, colour, size, wide), mode)
        made.addPixmap(_render(name, disabled, size, wide), QIcon.Mode.Disabled)
    return made


def dress(target: QAbstractButton | QAction, name: str, tone: Tone = Tone.TEXT) -> None:
    """Give a button or an action an icon that follows the theme."""
    target.setProperty(_NAME, name)
    target.setProperty(_TONE, tone.value)
    _put_on(target, palette_colours(QGuiApplication.palette()))


def make_primary(button: QAbstractButton, primary: bool = True) -> None:
    """Make a button the main one of its place, or one of the others: filled with the accent colour or not."""
    role = "primary" if primary else ""
    if button.property("role") == role:
        return
    button.setProperty("role", role)
    button.style().unpolish(button)
    button.style().polish(button)
    if button.property(_NAME) is not None:
        _put_on(button, palette_colours(QGuiApplication.palette()))


def _put_on(target: QAbstractButton | QAction, colours: Colours) -> None:
    primary = target.property("role") == "primary"
    colour = colours.on_accent if primary else colours.tones[Tone(str(target.property(_TONE)))]
    sizes: tuple[int, ...] = _SIZES_PX
    wide = 1.0
    if isinstance(target, QAbstractButton):
        height = target.fontMetrics().height()
        # Drawn in the very size: made smaller from another one they are blurred.
        sizes, wide = tuple(round(height * scale) for scale in _SCALES), BESIDE if target.text() else 1.0
        target.setIconSize(QSize(round(height * wide), height))
    target.setIcon(_icon(str(target.property(_NAME)), colour, colours.disabled, sizes, wide))


def redress(roots: Iterable[QObject], colours: Colours) -> None:
    """Give everything dressed below these objects its icon again, in other colours."""
    for root in roots:
        dressed: list[QAbstractButton | QAction] = [
            *root.findChildren(QAbstractButton),
            *root.findChildren(QAction),
        ]
        for target in dressed:
            if target.property(_NAME) is not None:
                _put_on(target, colours)


def app_icon() -> QIcon:
    """Return the program's own icon in every size it is shipped in."""
    made = QIcon()
    for size in _APP_SIZES_PX:
        made.addFile(str(shipped("resources", "icons", "app", f"app-{size}.png")), QSize(size, size))
    return made


def qcolor(colour: str, opacity: float = 1.0) -> QColor:
    """Return a Qt colour from `#rrggbb` and an opacity from 0 to 1."""
    made = QColor(colour)
    made.setAlphaF(opacity)
    return made
