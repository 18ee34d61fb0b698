from pathlib import Path

from PySide6.QtCore import QSettings
from PySide6.QtWidgets import QSplitter, QTabWidget, QWidget
from pytestqt.qtbot import QtBot

from soulsgui.gui.runs.models import RunsModel
from soulsgui.gui.widgets.geometry import Memory
from soulsgui.gui.widgets.table import Table


def arranged(qtbot: QtBot) -> tuple[QSplitter, Table]:
    splitter, table = QSplitter(), Table("runsTable", "Runs")
    splitter.setObjectName("runsSplitter")
    table.setModel(RunsModel(table))
    splitter.addWidget(QWidget())
    splitter.addWidget(table)
    splitter.resize(600, 200)
    qtbot.addWidget(splitter)
    splitter.show()
    return splitter, table


def test_splitters_and_columns_come_back_as_they_were(qtbot: QtBot, tmp_path: Path) -> None:
    def kept() -> QSettings:
        return QSettings(str(tmp_path / "window.ini"), QSettings.Format.IniFormat)

    splitter, table = arranged(qtbot)
    usual = table.columnWidth(1)
    Memory(kept(), "runs").restore(splitter, table)
    assert table.columnWidth(1) == usual, "nothing was kept yet"
    splitter.setSizes([150, 445])
    table.setColumnWidth(1, 333)
    settings = kept()
    Memory(settings, "runs").keep(splitter, table)
    settings.sync()
    again, other = arranged(qtbot)
    assert other.columnWidth(1) == usual != 333
    Memory(kept(), "runs").restore(again, other)
    assert other.columnWidth(1) == 333
    assert again.sizes() == splitter.sizes()
    settings = kept()
    settings.setValue("runs/runsTableColumns", 99)
    _, other = arranged(qtbot)
    Memory(settings, "runs").restore(other)
    assert other.columnWidth(1) == usual, "Qt would draw the columns of another version"


def test_the_tab_in_front_comes_back(qtbot: QtBot, tmp_path: Path) -> None:
    def kept() -> QSettings:
        return QSettings(str(tmp_path / "window.ini"), QSettings.Format.IniFormat)

    def tabs() -> QTabWidget:
        made = QTabWidget()
        qtbot.addWidget(made)
        made.setObjectName("tabs")
        for title in "abc":
            made.addTab(QWidget(), title)
        Memory(kept(), "page").restore(made)
        return made

    first = tabs()
    assert first.currentIndex() == 0, "nothing was kept yet"
    first.setCurrentIndex(2)
    settings = kept()
    Memory(settings, "page").keep(first)
    settings.sync()
    assert tabs().currentIndex() == 2
    settings.setValue("page/tabs", 7)
    settings.sync()
    assert tabs().currentIndex() == 0, "of another version"
