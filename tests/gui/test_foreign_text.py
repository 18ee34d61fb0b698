"""What other computers, folders and servers say is shown as text, wherever the window shows it (R41)."""

import ast
import types
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest
from pydantic import BaseModel, ValidationError
from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QComboBox,
    QLabel,
    QPlainTextEdit,
    QWidget,
)
from pytestqt.qtbot import QtBot

import soulsgui.gui
from soulsgui.gui.clients.page import ClientsPage
from soulsgui.gui.logs.page import LogsPage
from soulsgui.gui.models.records import NamedRows
from soulsgui.gui.overview.page import OverviewPage
from soulsgui.gui.runs.page import RunsPage
from soulsgui.wire.control import (
    AuditEntry,
    CheckpointInfo,
    ClientStatus,
    Event,
    LogLine,
    RunStatus,
    RunSummary,
    ServerStatus,
    ServiceStatus,
    Status,
)
from tests.gui.fake_feed import NOTHING_YET, FakeFeed, FakeShell
from tests.gui.reading import shown

GUI = Path(soulsgui.gui.__file__).parent
HOSTILE = "<img src='file:///canary'>\x1b[2J\u202egone\x07\x00"
ENDLESS = HOSTILE + "x" * 2**20
FLOAT = 1e308


def hostile(kind: type[BaseModel]) -> Any:
    """Make a message in which every text that may be anything is hostile and endless, every number large."""
    values: dict[str, Any] = {}
    for name, field in kind.model_fields.items():
        fitting = [told for told in _offers(field.annotation) if _fits(kind, values, name, told)]
        if fitting:
            values[name] = fitting[0]
    return kind.model_validate(values)


def _offers(annotation: Any) -> list[Any]:
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _offers(parts[0])
    if origin in (Union, types.UnionType):
        return _offers(next(part for part in parts if part is not type(None)))
    if origin is Literal:
        return [parts[0]]
    if origin is list:
        return [[one] for one in _offers(parts[0])]
    if origin is dict:
        return [{"run.resume": one} for one in _offers(parts[1])]
    if origin is tuple:
        return list(zip(*map(_offers, parts), strict=False))
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return [next(iter(annotation))]
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [hostile(annotation)]
    if annotation is Any:
        return [ENDLESS]
    return {str: [ENDLESS, HOSTILE], int: [2**70, 2**63 - 1, 1], float: [FLOAT, 1e9, 1.0], bool: [True]}.get(
        annotation, []
    )


def _fits(kind: type[BaseModel], values: dict[str, Any], name: str, told: Any) -> bool:
    try:
        kind.model_validate({**values, name: told})
    except ValidationError as error:
        return not any(one["loc"][0] == name for one in error.errors())
    return True


def said(widget: QWidget) -> Iterator[tuple[str, str]]:
    """Yield every text on a widget and below it, with what shows it."""
    for part in (widget, *widget.findChildren(QWidget)):
        yield f"tip of {part.objectName() or type(part).__name__}", part.toolTip()
        match part:
            case QLabel():
                yield "label", part.text()
            case QAbstractButton():
                yield "button", part.text()
            case QComboBox():
                yield from (("box", part.itemText(row)) for row in range(part.count()))
            case QPlainTextEdit():
                yield "text", part.toPlainText()
            case QAbstractItemView() if part.model() is not None:
                yield from cells(part)


def cells(view: QAbstractItemView) -> Iterator[tuple[str, str]]:
    model = view.model()
    for row in range(model.rowCount()):
        for column in range(model.columnCount() if isinstance(model, NamedRows) else 1):
            index = model.index(row, column)
            yield f"cell of {view.objectName()}", str(index.data() or "")
            yield f"tip of {view.objectName()}", str(index.data(Qt.ItemDataRole.ToolTipRole) or "")


@pytest.fixture
def server(fake: FakeFeed) -> FakeFeed:
    runs, line = [hostile(RunSummary)], hostile(LogLine).model_copy(update={"time": 1.0})
    fake.status = Status(
        run=hostile(RunStatus),
        services=[hostile(ServiceStatus)],
        server=hostile(ServerStatus),
        clients=[hostile(ClientStatus)],
    )
    fake.events = [hostile(Event).model_copy(update={"run_id": HOSTILE})]
    fake.answers |= NOTHING_YET | {
        "runs.list": {"runs": [run.model_dump(mode="json") for run in runs]},
        "history.logs": {"lines": [line.model_dump(mode="json")], "first": 1},
        "history.events": {"events": [event.model_dump(mode="json") for event in fake.events]},
        "history.audit": {"entries": [hostile(AuditEntry).model_dump(mode="json")]},
        "checkpoint.list": {"checkpoints": [hostile(CheckpointInfo).model_dump(mode="json")]},
    }
    return fake


@pytest.mark.parametrize("make", [OverviewPage, ClientsPage, RunsPage, LogsPage])
def test_what_others_say_is_text_on_every_page(
    qtbot: QtBot, server: FakeFeed, shell: FakeShell, make: Callable[[FakeFeed, FakeShell], QWidget]
) -> None:
    page = shown(qtbot, make(server, shell), 1200, 700)
    server.take_snapshot(server.status)
    if isinstance(page, RunsPage):
        qtbot.waitUntil(lambda: page.table.model().rowCount() == 1)
        page.table.selectRow(0)
    if isinstance(page, LogsPage):
        page.tabs.setCurrentIndex(1)
    qtbot.waitUntil(lambda: any("canary" in words for _, words in said(page)))
    qtbot.wait(300)  # what it asked for comes, too
    for place, words in said(page):
        plain = words.translate({ord(one): None for one in "\n\t\N{NO-BREAK SPACE}"})
        assert plain.isprintable(), (place, words)
        assert len(words) < (11_000 if place == "text" else 3000), (place, words[:100])
        if place.startswith("tip"):
            assert "<img" not in words, (place, words)
    rich = {Qt.TextFormat.AutoText, Qt.TextFormat.MarkdownText}
    labels = [label.text() for label in page.findChildren(QLabel) if label.textFormat() in rich]
    assert not [words for words in labels if "<" in words]


def test_every_label_shows_text_alone_and_every_tooltip_is_our_own_words_or_made_text() -> None:
    labels, tips = [], []
    for path in sorted(GUI.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = ast.unparse(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""
            if isinstance(node, ast.Call) and name == "QLabel":
                labels.append(f"{path.relative_to(GUI)}:{node.lineno}")
            elif isinstance(node, ast.Call) and name in ("setToolTip", "showText"):
                words = ast.unparse(node.args[name == "showText"])
                tips.append((f"{path.relative_to(GUI)}:{node.lineno}", words))
    assert not labels, "use soulsgui.gui.widgets.labels.Label"
    assert len(tips) > 20
    ours = ("tip(", "shown", "button.toolTip()")
    others = [one for one in tips if one[1][0] not in "\"'" and not any(way in one[1] for way in ours)]
    assert not others, "use set_tip of soulsgui.gui.widgets.labels, or soulsgui.gui.text.tip"
