"""The clients: their table, and what can be done with the chosen ones: on two pages."""

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

from PySide6.QtCore import (
    QEvent,
    QItemSelectionModel,
    QPointF,
    Qt,
    Signal,
)
from PySide6.QtGui import QColor, QPainter, QPen, QPolygonF, QResizeEvent
from PySide6.QtWidgets import (
    QStackedWidget,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from soulsgui.gui.clients.model import GIVEN_UP_FIRST, KEPT_RATES, ClientsModel
from soulsgui.gui.colours import Tone
from soulsgui.gui.feed import Call, Feed, together
from soulsgui.gui.icons import palette_colours
from soulsgui.gui.models.connection import Connection, why_not
from soulsgui.gui.models.records import Index
from soulsgui.gui.models.rules import ClientAction, Question, possible, question_before
from soulsgui.gui.states import clients_here
from soulsgui.gui.theme import GAP_S
from soulsgui.gui.throttle import Throttle
from soulsgui.gui.widgets.ask import AskingButton
from soulsgui.gui.widgets.boxes import NO_MARGINS, column, flow
from soulsgui.gui.widgets.command_button import CommandButton, MoreButton, Words, allow
from soulsgui.gui.widgets.inputs import FilterEdit
from soulsgui.gui.widgets.labels import ElidedLabel, Heading, muted
from soulsgui.gui.widgets.table import Table
from soulsgui.wire.control import ClientStatus

_TEXT = QStyleOptionViewItem.ViewItemFeature.HasDisplay
_TEXT_AND_PICTURE = _TEXT | QStyleOptionViewItem.ViewItemFeature.HasDecoration
_SHARE = 0.5
_MARGIN_PX = 4.0


@lru_cache(maxsize=512)
def spark_points(values: tuple[float, ...], width: float, height: float, most: int) -> QPolygonF:
    """Return the corners of a small curve: the newest value at the right edge, 0 at the bottom."""
    top = max(max(values, default=0.0), 0.0)
    if len(values) < 2 or top <= 0 or most < 2:
        return QPolygonF()
    step, scale = width / (most - 1), height / top
    left = width - step * (len(values) - 1)
    return QPolygonF(
        [QPointF(left + step * place, height - scale * max(value, 0.0)) for place, value in enumerate(values)]
    )


@lru_cache
def _pen(colour: str) -> QPen:
    return QPen(QColor(colour), 1.2)


class Cells(QStyledItemDelegate):
    """Draws cells of clients by what there is: the library asks a model for seven things, one by one."""

    def initStyleOption(self, option: QStyleOptionViewItem, index: Index) -> None:
        """Take its text, and its picture in the first column."""
        model, column = index.model(), index.column()
        assert isinstance(model, ClientsModel)
        told: Any = option  # the types of PySide lack what an option is made of
        told.index, told.features = index, _TEXT
        told.text = model.words_at(index.row(), column)
        told.displayAlignment = model.alignment(column)
        if column == 0 and (picture := model.data(index, Qt.ItemDataRole.DecorationRole)) is not None:
            told.icon, told.features = picture, _TEXT_AND_PICTURE


class Sparkline(Cells):
    """Draws the cell's text as always, and how the rate was in the last minute in its left half."""

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Draw one cell."""
        super().paint(painter, option, index)
        model = index.model()
        assert isinstance(model, ClientsModel)
        rect = option.rect
        width, height = rect.width() * _SHARE - _MARGIN_PX, rect.height() - 2 * _MARGIN_PX
        points = spark_points(tuple(model.rates_at(index.row())), width, height, KEPT_RATES)
        if points.isEmpty():
            return
        colours = palette_colours(option.palette)
        enabled = bool(option.state & QStyle.StateFlag.State_Enabled)
        painter.save()
        painter.translate(rect.left() + _MARGIN_PX, rect.top() + _MARGIN_PX)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(_pen(colours.tones[Tone.ACCENT] if enabled else colours.disabled))
        painter.drawPolyline(points)
        painter.restore()


class ClientsTable(Table):
    """A table without sideways scrolling: what says least is left out where there is no room for all."""

    def __init__(self, name: str, model: ClientsModel, parent: QWidget | None = None) -> None:
        super().__init__(name, "Clients", parent)
        self.setModel(model)
        self.setItemDelegate(Cells(self))
        self.setItemDelegateForColumn(model.column_number("rate"), Sparkline(self))

    def dataChanged(self, topLeft: Index, bottomRight: Index, roles: Sequence[int] = ()) -> None:
        """Draw one column anew where no other has changed: the library draws all of them."""
        column = topLeft.column()
        if column != bottomRight.column():
            super().dataChanged(topLeft, bottomRight, roles)
            return
        viewport, left = self.viewport(), self.columnViewportPosition(column)
        viewport.update(left, 0, self.columnWidth(column), viewport.height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Show as many columns as there is room for now."""
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self.fit_columns()

    def changeEvent(self, event: QEvent) -> None:
        """Do the same when the letters have another size."""
        super().changeEvent(event)
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.StyleChange) and self.model() is not None:
            self.fit_columns()

    def fit_columns(self) -> None:
        """Hide columns, first those that say least, until the others fit."""
        header, model = self.horizontalHeader(), self.model()
        assert isinstance(model, ClientsModel)
        for section in range(header.count()):
            header.setSectionHidden(section, False)
        # The last one is as wide as the room that is left.
        last = header.logicalIndex(header.count() - 1)
        widths = {section: header.sectionSize(section) for section in range(header.count())}
        widths[last] = max(self.usual_width(last), header.sectionSizeHint(last))
        needed = sum(widths.values())
        for name in GIVEN_UP_FIRST:
            if needed <= self.viewport().width():
                return
            section = model.column_number(name)
            header.setSectionHidden(section, True)
            needed -= widths[section]


_TICK_MS = 400  # who reads a number needs as long


class ClientsSection(QWidget):
    """Every client of the roster, with buttons for the chosen ones, beside the filter.

    Args:
        feed: The way to the server.
        name: That of the table.
        actions: What can be done with the chosen ones.
        empty: What is shown instead of a table without rows.
        rare: What else, in the menu of `more`.
        parent: The page.

    Signals:
        problem: A command failed; with the `ApiError`.
        chosen_changed: Other clients are chosen, or something about them changed.
        emptied: No client is shown; why none is known of, and whether the filter fits none.
    """

    problem = Signal(object)
    chosen_changed = Signal()
    emptied = Signal(str, bool)

    def __init__(
        self,
        feed: Feed,
        name: str,
        actions: Sequence[ClientAction],
        empty: QWidget,
        rare: Sequence[ClientAction] = (),
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.feed = feed
        self._actions = (*actions, *rare)
        self.model = ClientsModel(self)
        self.table = ClientsTable(name, self.model, self)
        self.table.sort_by(self.model.column_number("name"))
        self.table.offer(lambda: [*self.buttons.values(), *self.more.menu_of.actions()])
        self.table.selectionModel().selectionChanged.connect(lambda *_: self.arrange_buttons())
        self.empty = empty
        self._count = muted(ElidedLabel("", self))
        self.words = FilterEdit("Filter by name, host, state, environment or error", self)
        self.words.textChanged.connect(self._narrow)
        self.buttons = {action.name: self._button(action) for action in self._actions}
        self.more = MoreButton(self)
        self.entries = {
            action.name: self.more.add(action.title, action.icon, self.buttons[action.name].click)
            for action in rare
        }
        self.head = flow(Heading("Clients", 0, self), self._count, self.words, gap_px=GAP_S)
        for button in (*self.buttons.values(), self.more):
            self.head.addWidget(button)
        for name in self.entries:
            self.buttons[name].hide()  # its entry presses it
        self.more.setVisible(bool(rare))
        self._stack = QStackedWidget(self)
        self._stack.addWidget(self.table)
        self._stack.addWidget(self.empty)
        column(self.head, (self._stack, 1), on=self, margins=NO_MARGINS, gap_px=GAP_S)
        self._throttle = Throttle(self, self._tick, _TICK_MS)

    def _button(self, action: ClientAction) -> CommandButton:
        words = Words(action.title, action.doing, action.done)
        send, question = partial(self._send, action), partial(self._question, action)
        button = AskingButton(words, action.icon, send, question, self)
        button.problem.connect(self.problem)
        return button

    def replace(self, clients: list[ClientStatus]) -> None:
        """Show these clients and no others."""
        self.model.replace(clients)
        self._throttle.request()

    def apply(self, changed: list[ClientStatus], removed: list[str]) -> None:
        """Show what changed."""
        self.model.apply(changed, removed)
        self._throttle.request()

    def tick(self) -> None:
        """Let the ages of heartbeats go on; the owner calls it once a second while they are the present."""
        self._throttle.request()

    def show_connection(self, connection: Connection) -> None:
        """Grey the table while it is not the present."""
        self.table.setEnabled(connection.live)
        self._show_count()
        self.arrange_buttons()

    def _narrow(self, words: str) -> None:
        self.model.set_filter(words)
        self._show_count()

    def _tick(self) -> None:
        self.model.tick()
        self._show_count()
        self.arrange_buttons()

    def _show_count(self) -> None:
        connection = self.feed.connection
        here, expected = clients_here(self.feed.status.clients)
        self._count.setText(f"{here} of {expected} connected" if expected else "")
        known = self.feed.last_data is not None or connection.live
        self.emptied.emit("" if known else why_not(connection), bool(self.model.total and self.words.text()))
        self._stack.setCurrentIndex(0 if self.model.rowCount() else 1)

    @property
    def chosen(self) -> list[ClientStatus]:
        """The selected clients, from top to bottom."""
        found = [self.model.client_at(row) for row in self.table.selected_rows]
        return [client for client in found if client is not None]

    def choose(self, *names: str) -> None:
        """Select these clients and no others."""
        selection = self.table.selectionModel()
        selection.clear()
        for name in names:
            row = self.model.row_of(name)
            if row is not None:
                flags = QItemSelectionModel.SelectionFlag.Select | QItemSelectionModel.SelectionFlag.Rows
                selection.select(self.model.index(row, 0), flags)

    def _send(self, action: ClientAction) -> Call | None:
        able, _ = possible(action.name, self.chosen, self.feed.status)
        if not able:  # it has just become impossible: the button says why from now on
            self.arrange_buttons()
            return None
        return together([self.feed.call(action.command, {"client": client.id}) for client in able])

    def _question(self, action: ClientAction) -> Question | None:
        return question_before(action.name, possible(action.name, self.chosen, self.feed.status)[0])

    def arrange_buttons(self) -> None:
        """Allow what can be done with the chosen ones."""
        chosen, connection = self.chosen, self.feed.connection
        self.chosen_changed.emit()
        for action in self._actions:
            _, reason = possible(action.name, chosen, self.feed.status)
            refusal = why_not(connection) or reason
            self.buttons[action.name].allow(refusal, action.tip)
            if action.name in self.entries:
                allow(self.entries[action.name], refusal, action.tip)
