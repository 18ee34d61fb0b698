from dataclasses import dataclass

from PySide6.QtCore import QItemSelectionModel, QPersistentModelIndex, Qt
from PySide6.QtWidgets import QApplication

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


def model_of(*fruits: Fruit, pinned: str = "") -> RecordsModel[Fruit]:
    model = RecordsModel(COLUMNS, lambda one: one.name, lambda one: one.name == pinned)
    model.replace(fruits)
    return model


def names(model: RecordsModel[Fruit]) -> list[str]:
    return [model.data(model.index(row, 0)) for row in range(model.rowCount())]


PLUM, PEAR, FIG = Fruit("plum", 30), Fruit("pear", 150), Fruit("Fig", 9)


def test_rows_come_as_given_until_they_are_sorted(qapp: QApplication) -> None:
    model = model_of(PLUM, PEAR, FIG)
    assert names(model) == ["plum", "pear", "Fig"]
    model.sort(0)
    assert names(model) == ["Fig", "pear", "plum"]
    model.sort(1, Qt.SortOrder.DescendingOrder)
    assert names(model) == ["pear", "plum", "Fig"]


def test_a_pinned_record_stays_on_top_however_the_rest_is_sorted(qapp: QApplication) -> None:
    model = model_of(PLUM, PEAR, FIG, pinned="plum")
    for order in (Qt.SortOrder.AscendingOrder, Qt.SortOrder.DescendingOrder):
        model.sort(1, order)
        assert names(model)[0] == "plum"


def test_every_word_of_the_filter_must_stand_in_some_cell(qapp: QApplication) -> None:
    model = model_of(PLUM, PEAR, FIG)
    model.set_filter("P 150")
    assert names(model) == ["pear"]
    model.set_filter("")
    assert len(names(model)) == 3


def test_a_selection_stays_with_its_record(qapp: QApplication) -> None:
    model = model_of(PLUM, PEAR, FIG)
    chosen = QItemSelectionModel(model)
    chosen.setCurrentIndex(model.index(2, 0), QItemSelectionModel.SelectionFlag.SelectCurrent)
    gone = QPersistentModelIndex(model.index(1, 0))
    model.replace([FIG, PLUM])
    assert model.at(chosen.currentIndex().row()) == FIG
    assert not gone.isValid()


def test_a_changed_record_keeps_its_row_and_an_unknown_one_is_left_out(qapp: QApplication) -> None:
    model = model_of(PLUM, PEAR)
    model.change(Fruit("plum", 31))
    model.change(Fruit("kiwi", 70))
    assert [one.weight for one in model.records] == [31, 150]


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
