from dataclasses import dataclass

from PySide6.QtCore import QItemSelectionModel, QPersistentModelIndex, Qt
from PySide6.QtWidgets import QApplication
from pytestqt.modeltest import ModelTester

from soulsgui.gui.colours import Tone
from soulsgui.gui.models.records import Column, RecordsModel
from soulsgui.gui.states import Look


@dataclass(frozen=True)
class Fruit:
    name: str
    weight: int
    fresh: bool = True


COLUMNS = (
    Column[Fruit]("name", "Name", lambda one: one.name, tip=lambda one: f"a {one.name}"),
    Column[Fruit](
        "weight",
        "Weight",
        lambda one: f"{one.weight} g",
        lambda one: one.weight,
        number=True,
        look=lambda one: Look("state-good", Tone.GOOD, "good"),
    ),
)


def model_of(*fruits: Fruit) -> RecordsModel[Fruit]:
    model = RecordsModel(COLUMNS, lambda one: one.name)
    model.replace(fruits)
    return model


def names(model: RecordsModel[Fruit]) -> list[str]:
    return [model.data(model.index(row, 0)) for row in range(model.rowCount())]


PLUM, PEAR, FIG = Fruit("plum", 30), Fruit("pear", 150), Fruit("Fig", 9)


def test_rows_come_as_given_until_they_are_sorted_and_those_with_every_word_alone(qapp: QApplication) -> None:
    model = model_of(PLUM, PEAR, FIG)
    assert names(model) == ["plum", "pear", "Fig"]
    model.sort(0)
    assert names(model) == ["Fig", "pear", "plum"]
    model.sort(1, Qt.SortOrder.DescendingOrder)
    assert names(model) == ["pear", "plum", "Fig"]
    model.set_filter("P 150")
    assert names(model) == ["pear"]
    model.set_filter("")
    assert len(names(model)) == 3


def test_of_two_records_alike_the_later_one_counts_and_a_change_keeps_the_row(qapp: QApplication) -> None:
    model = model_of(PLUM, FIG, Fruit("plum", 31))
    assert model.records == [Fruit("plum", 31), FIG]
    model.change(Fruit("plum", 32))
    model.change(Fruit("kiwi", 70))
    assert model.records == [Fruit("plum", 32), FIG]


def test_a_selection_stays_with_its_record(qapp: QApplication) -> None:
    model = model_of(PLUM, PEAR, FIG)
    chosen = QItemSelectionModel(model)
    chosen.setCurrentIndex(model.index(2, 0), QItemSelectionModel.SelectionFlag.SelectCurrent)
    gone = QPersistentModelIndex(model.index(1, 0))
    model.replace([FIG, PLUM])
    assert model.at(chosen.currentIndex().row()) == FIG
    assert not gone.isValid()


def test_rows_come_and_go_as_such_and_never_with_a_new_order(qapp: QApplication) -> None:
    model = model_of(PLUM, PEAR, FIG)
    counts: list[int] = []
    moved: list[tuple[str, int, int]] = []
    for signal in (model.layoutAboutToBeChanged, model.layoutChanged):
        signal.connect(lambda: counts.append(model.rowCount()))
    model.rowsRemoved.connect(lambda _, *rows: moved.append(("gone", *rows)))
    model.rowsInserted.connect(lambda _, *rows: moved.append(("come", *rows)))
    model.replace([Fruit("kiwi", 70), FIG, PLUM])
    assert names(model) == ["kiwi", "Fig", "plum"]
    assert moved == [("gone", 1, 1), ("come", 2, 2)]
    assert counts == [3, 3]
    model.set_filter("plum")
    assert names(model) == ["plum"]
    assert counts == [3, 3]


def test_the_rules_of_qt_are_kept(qapp: QApplication, qtmodeltester: ModelTester) -> None:
    model = model_of()
    qtmodeltester.check(model)
    model.replace([PLUM, PEAR, FIG])
    model.sort(1)
    model.replace([FIG, Fruit("kiwi", 1)])
    model.replace([])


def test_cells_tell_text_tip_icon_and_alignment(qapp: QApplication) -> None:
    model = model_of(PLUM)
    assert model.data(model.index(0, 0), Qt.ItemDataRole.ToolTipRole) == "a plum"
    assert model.data(model.index(0, 1), Qt.ItemDataRole.ToolTipRole) == "30 g"
    assert not model.data(model.index(0, 1), Qt.ItemDataRole.DecorationRole).isNull()
    right = model.data(model.index(0, 1), Qt.ItemDataRole.TextAlignmentRole)
    assert right & Qt.AlignmentFlag.AlignRight
    assert model.headerData(1, Qt.Orientation.Horizontal) == "Weight"
    assert model.column_number("weight") == 1
    assert model.row_of("plum") == 0
    assert model.at(7) is None
