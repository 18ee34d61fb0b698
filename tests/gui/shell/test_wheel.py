"""Who scrolls a page or a dialog changes no field on the way."""

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractSpinBox, QComboBox, QScrollArea, QSlider, QSpinBox, QWidget
from pytestqt.qtbot import QtBot

from soulsgui.config.paths import Folders
from soulsgui.gui.config.new_run import NewRunDialog
from soulsgui.gui.preferences import Preferences
from soulsgui.gui.shell.menu import SettingsDialog
from soulsgui.gui.shell.pages import page_entries
from soulsgui.gui.theme import Theme
from soulsgui.gui.widgets.inputs import leave_wheel_to_page
from tests.gui.fake_feed import FakeFeed
from tests.gui.reading import shown
from tests.gui.shell.conftest import Make
from tests.gui.wheel import turn_wheel

FIELDS = (QAbstractSpinBox, QComboBox, QSlider)


def takes_wheel(field: QWidget) -> bool:
    field.blockSignals(True)
    field.setEnabled(True)
    # A slider at its end takes one direction alone.
    return any(turn_wheel(field, by) for by in (-120, 120))


def fields_that_take_it(widget: QWidget) -> list[str]:
    fields = [field for kind in FIELDS for field in widget.findChildren(kind)]
    return [field.accessibleName() or repr(field) for field in fields if takes_wheel(field)]


@pytest.mark.parametrize("name", page_entries())
def test_fields_of_a_page_leave_the_wheel_to_it(make: Make, name: str) -> None:
    assert fields_that_take_it(make(name).pages.front) == []


def test_fields_of_a_dialog_leave_the_wheel_to_it(
    qtbot: QtBot, fake: FakeFeed, both_themes: Theme, folders: Folders
) -> None:
    dialogs = NewRunDialog(fake), SettingsDialog(Preferences(folders), both_themes)
    for dialog in dialogs:
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
        shown(qtbot, dialog)
    assert [fields_that_take_it(dialog) for dialog in dialogs] == [[], []]


@pytest.mark.parametrize("kind", [QComboBox, QSpinBox])
def test_what_is_around_a_field_is_scrolled_instead(qtbot: QtBot, kind: type[QComboBox | QSpinBox]) -> None:
    area, page = QScrollArea(), QWidget()
    field = kind(page)
    leave_wheel_to_page(field)
    field.setGeometry(10, 10, 90, 40)
    page.setFixedSize(100, 2000)
    area.setWidget(page)
    with qtbot.waitExposed(shown(qtbot, area, 120, 200)):
        pass
    middle = QPointF(field.mapTo(area, field.rect().center()))
    QTest.wheelEvent(area.windowHandle(), middle, QPoint(0, -120))
    qtbot.waitUntil(lambda: area.verticalScrollBar().value() > 0)
