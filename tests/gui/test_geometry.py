from pathlib import Path

from PySide6.QtCore import QSettings
from PySide6.QtWidgets import QSplitter, QWidget
from pytestqt.qtbot import QtBot

from soulsgui.gui.geometry import Memory
from soulsgui.gui.runs.models import RunsModel
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
    path = str(tmp_path / "window.ini")
    splitter, table = arranged(qtbot)
    splitter.setSizes([150, 445])
    table.setColumnWidth(1, 333)
    kept, sizes = QSettings(path, QSettings.Format.IniFormat), splitter.sizes()
    Memory(kept, "runs").keep(splitter, table)
    kept.sync()

    again, other = arranged(qtbot)
    assert other.columnWidth(1) != 333
    memory = Memory(QSettings(path, QSettings.Format.IniFormat), "runs")
    memory.restore(again, other)
    assert other.columnWidth(1) == 333
    assert again.sizes() == sizes


def test_without_anything_kept_all_stays_as_it_is(qtbot: QtBot, tmp_path: Path) -> None:
    splitter, table = arranged(qtbot)
    width = table.columnWidth(1)
    Memory(QSettings(str(tmp_path / "none.ini"), QSettings.Format.IniFormat), "runs").restore(splitter, table)
    assert table.columnWidth(1) == width
