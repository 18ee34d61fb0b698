"""Light and dark: palette, style sheet and font of the whole application.

Palettes are explicit, because on a bare X server Qt can't know what the desktop prefers.
"""

from enum import StrEnum

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontDatabase, QGuiApplication, QKeyEvent, QPalette
from PySide6.QtWidgets import (
    QApplication,
    QMenu,
    QProxyStyle,
    QStyle,
    QStyleHintReturn,
    QStyleOption,
    QWidget,
)

from soulsgui.config.paths import shipped
from soulsgui.gui.colours import Colours, blend, colours_for
from soulsgui.gui.icons import redress

_HEADINGS = {1: 1.18, 2: 1.5}

# The scale of all gaps and margins, in pixels.
GAP_XS, GAP_S, GAP_M, GAP_L, GAP_XL = 4, 8, 12, 16, 24


class ThemeChoice(StrEnum):
    """What the user asked for."""

    AUTO = "auto"
    LIGHT = "light"
    DARK = "dark"


def palette(colours: Colours) -> QPalette:
    """Return the Qt palette of a set of colours."""
    made = QPalette()
    role = QPalette.ColorRole
    for target, colour in (
        (role.Window, colours.window),
        (role.WindowText, colours.text),
        (role.Base, colours.base),
        (role.AlternateBase, colours.alternate),
        (role.Text, colours.text),
        (role.PlaceholderText, colours.muted),
        (role.Button, colours.card),
        (role.ButtonText, colours.text),
        (role.BrightText, colours.text),
        (role.ToolTipBase, colours.card),
        (role.ToolTipText, colours.text),
        (role.Highlight, colours.selection),
        (role.HighlightedText, colours.text),
        (role.Accent, colours.accent),
        (role.Link, colours.accent),
        (role.LinkVisited, colours.accent),
        (role.Light, colours.card),
        (role.Midlight, colours.hover),
        (role.Mid, colours.border),
        (role.Dark, colours.edge),
        (role.Shadow, colours.border),
    ):
        made.setColor(target, QColor(colour))
    off = QColor(colours.disabled)
    for target in (role.WindowText, role.Text, role.ButtonText, role.HighlightedText, role.PlaceholderText):
        made.setColor(QPalette.ColorGroup.Disabled, target, off)
    return made


def style_sheet(colours: Colours, point_size: float) -> str:
    """Return the style sheet with colours and the sizes of headings filled in."""
    text = shipped("resources", "style", "app.qss").read_text(encoding="utf-8")
    shade = "dark" if colours.dark else "light"
    marks = shipped("resources", "style", "marks").as_posix()
    names = {name: value for name, value in vars(colours).items() if isinstance(value, str)}
    names |= {f"{tone}-wash": wash for tone, wash in colours.washes.items()}
    names |= {f"{tone}-tone": colour for tone, colour in colours.tones.items()}
    names |= {f"{tone}-edge": blend(colour, colours.card, 0.4) for tone, colour in colours.tones.items()}
    names |= {f"heading-{level}": f"{point_size * scale:.1f}pt" for level, scale in _HEADINGS.items()}
    # Longest first: `@accent` would otherwise eat the beginning of `@accent-wash`.
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(f"@{name}", names[name])
    return text.replace("@marks", marks).replace("@shade", shade)


class _Style(QProxyStyle):
    """Fusion, but for the letters of shortcuts: they are underlined in menus, and while Alt is held."""

    alt_held = False

    def styleHint(
        self,
        hint: QStyle.StyleHint,
        option: QStyleOption | None = None,
        widget: QWidget | None = None,
        returnData: QStyleHintReturn | None = None,
    ) -> int:
        """Answer that question, and leave the others to Fusion."""
        if hint is QStyle.StyleHint.SH_UnderlineShortcut and not isinstance(widget, QMenu):
            return int(_Style.alt_held)
        return super().styleHint(hint, option, widget, returnData)


def fixed_font() -> QFont:
    """Return the font whose letters are all of one width, in the size of the application's font."""
    font = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
    font.setPointSizeF(QGuiApplication.font().pointSizeF())
    return font


def underline_letters(window: QWidget, event: QEvent) -> None:
    """Show the letters of shortcuts while Alt is held; a window calls it for each of its events."""
    held = _Style.alt_held
    if isinstance(event, QKeyEvent) and event.key() == Qt.Key.Key_Alt:
        held = event.type() is not QEvent.Type.KeyRelease
    elif event.type() is QEvent.Type.WindowDeactivate:  # the release goes to another window
        held = False
    if held is not _Style.alt_held:
        _Style.alt_held = held
        window.update()


class Theme(QObject):
    """Holds the look of the application and changes it while it runs.

    Signals:
        changed: The colours or the font are others now; sent after every widget has its new palette.
    """

    changed = Signal()

    def __init__(self, app: QApplication, choice: ThemeChoice = ThemeChoice.AUTO) -> None:
        super().__init__(app)
        self._app = app
        self._choice = choice
        self._system_font = QFont(app.font())
        self._system_font.setFeature(QFont.Tag("tnum"), 1)  # figures of one width: numbers do not jitter
        app.setFont(self._system_font)
        self._colours: Colours | None = None
        app.setStyle(_Style("Fusion"))
        app.styleHints().colorSchemeChanged.connect(self._apply)
        self._apply()

    @property
    def colours(self) -> Colours:
        """The colours in use."""
        dark = self._choice is ThemeChoice.DARK
        if self._choice is ThemeChoice.AUTO:
            dark = self._app.styleHints().colorScheme() is Qt.ColorScheme.Dark
        return colours_for(dark)

    def choose(self, choice: ThemeChoice) -> None:
        """Use another theme from now on."""
        self._choice = choice
        self._apply()

    def set_font_scale(self, percent: int) -> None:
        """Make all text larger or smaller than the system's font."""
        font = QFont(self._system_font)
        font.setPointSizeF(self._system_font.pointSizeF() * percent / 100)
        if font == self._app.font():
            return  # every widget would be measured anew
        self._app.setFont(font)
        self._apply(again=True)

    def _apply(self, *, again: bool = False) -> None:
        colours = self.colours
        if colours is self._colours and not again:
            return
        self._colours = colours
        self._app.setPalette(palette(colours))
        # Not over the one before: Qt would style a widget again for each that it stands in.
        self._app.setStyleSheet("")
        self._app.setStyleSheet(style_sheet(colours, self._app.font().pointSizeF()))
        redress(self._app.topLevelWidgets(), colours)
        self.changed.emit()
