"""The manual: found in every installation, opened at the page that is shown; nothing comes from afar."""

import re
import shutil
import tomllib
from pathlib import Path

import pytest
from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QDesktopServices, QTextDocument
from pytestqt.qtbot import QtBot

from soulsgui.config.paths import shipped
from soulsgui.gui.clients.invite import InviteDialog
from soulsgui.gui.colours import DARK
from soulsgui.gui.config.mending import MendConfigDialog
from soulsgui.gui.config.page import ConfigDialog
from soulsgui.gui.shell.about import AboutDialog
from soulsgui.gui.shell.command_palette import CommandPalette
from soulsgui.gui.shell.manual import START, ManualDialog, manual_pages
from soulsgui.gui.shell.pages import page_entries
from soulsgui.gui.shell.server_selector import AddServerDialog
from soulsgui.gui.theme import Theme, ThemeChoice
from soulsgui.gui.watching.player import Player

ROOT = Path(__file__).parents[3]
PAGES = sorted((ROOT / "docs").rglob("*.md"))


@pytest.fixture
def manual(qtbot: QtBot, theme: Theme) -> ManualDialog:
    made = ManualDialog()
    qtbot.addWidget(made)
    return made


def heading_in_view(manual: ManualDialog) -> str:
    return manual.text.cursorForPosition(manual.text.viewport().rect().topLeft()).block().text()


def test_the_wheel_brings_every_page_of_the_manual() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]
    included = build["targets"]["wheel"]["force-include"]
    for page in PAGES:
        places = (page, *page.parents)
        source = next(
            (str(place.relative_to(ROOT)) for place in places if f"{place.relative_to(ROOT)}" in included), ""
        )
        assert included.get(source) == f"soulsgui/_shipped/{source}", page


@pytest.mark.parametrize("title", [entry.title for entry in page_entries().values()])
def test_it_opens_at_the_page_that_is_shown(qtbot: QtBot, manual: ManualDialog, title: str) -> None:
    manual.resize(700, 300)
    manual.open_at(title)
    qtbot.waitUntil(lambda: heading_in_view(manual) == title)


def test_every_dialog_names_a_section_that_is_there() -> None:
    headings = re.findall(r"^## (.+)$", (shipped("docs") / START).read_text(encoding="utf-8"), re.MULTILINE)
    dialogs = (
        AboutDialog,
        AddServerDialog,
        CommandPalette,
        ConfigDialog,
        InviteDialog,
        MendConfigDialog,
        Player,
    )
    for dialog in dialogs:
        assert dialog.section in headings, dialog


def test_links_lead_on_and_back(qtbot: QtBot, manual: ManualDialog, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    follow = manual.text.anchorClicked.emit
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: asked.append(url.toString()))
    manual.open_at("More")
    qtbot.waitUntil(manual.text.isVisible)
    assert not manual.back.isEnabled()
    follow(QUrl("algorithms/dqn.md"))
    assert "DQN" in manual.windowTitle()
    for link in ("../networks.md", "../pyproject.toml", "none-such.md"):
        follow(QUrl(link))
        assert manual.windowTitle() == "Manual: Networks"
    for title in ("DQN", "The window"):
        qtbot.mouseClick(manual.back, Qt.MouseButton.LeftButton)
        assert title in manual.windowTitle()
    assert asked == []
    follow(QUrl("https://arxiv.org/abs/1312.5602"))
    assert asked == ["https://arxiv.org/abs/1312.5602"]


def test_a_link_to_a_heading_leads_to_it(qtbot: QtBot, manual: ManualDialog) -> None:
    manual.resize(700, 300)
    manual.open_at("Runs")
    manual.text.anchorClicked.emit(QUrl("experiments.md#the-queue"))
    qtbot.waitUntil(lambda: heading_in_view(manual) == "The queue")
    manual.text.anchorClicked.emit(QUrl("#sweeps"))
    qtbot.waitUntil(lambda: heading_in_view(manual) == "Sweeps")
    qtbot.mouseClick(manual.back, Qt.MouseButton.LeftButton)
    assert heading_in_view(manual) == "The queue"


def test_every_page_is_offered_and_words_are_found_on_all_of_them(qtbot: QtBot, manual: ManualDialog) -> None:
    titles = {title for title, *_ in manual_pages().values()}
    assert {manual.pages.itemText(place) for place in range(manual.pages.count())} == titles
    manual.open_at("Overview")
    qtbot.waitUntil(manual.text.isVisible)
    assert manual.pages.currentText() == "The window"
    manual.pages.setCurrentText("Experiments")
    manual.pages.activated.emit(manual.pages.currentIndex())
    assert manual.windowTitle() == "Manual: Experiments"

    qtbot.keyClick(manual.text, Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier)
    qtbot.keyClicks(manual.words, "Vapnik-Chervonenkis")
    qtbot.keyClick(manual.words, Qt.Key.Key_Return)
    assert "Vapnik" in manual.wrong.text()
    assert manual.windowTitle() == "Manual: Experiments", "nothing else is shown for what stands nowhere"
    manual.words.setText("quicksave of the run")
    assert not manual.wrong.text()
    for _ in range(2):  # the second time it comes round to the only place
        qtbot.keyClick(manual.words, Qt.Key.Key_Return)
        assert manual.pages.currentText() == "The window"
        assert manual.text.textCursor().selectedText() == "quicksave of the run"
        assert manual.isVisible(), "Enter in a field presses no button"
    qtbot.mouseClick(manual.back, Qt.MouseButton.LeftButton)
    assert manual.pages.currentText() == "Experiments"


def test_what_is_damaged_or_missing_in_an_installation_leaves_the_rest_to_be_read(
    qtbot: QtBot, theme: Theme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(shipped("docs"), tmp_path / "docs")
    monkeypatch.setattr("soulsgui.gui.shell.manual.shipped", lambda *parts: tmp_path.joinpath(*parts))
    (tmp_path / "docs" / "bare.md").write_text("No heading.")
    (tmp_path / "docs" / "bits.md").write_bytes(b"# Bits \xff")
    (tmp_path / "docs" / "images" / "welcome_light.png").write_bytes(b"none")
    manual = ManualDialog()
    qtbot.addWidget(manual)
    titles = {manual.pages.itemText(place) for place in range(manual.pages.count())}
    assert titles >= {"The window", "bare", "Bits \ufffd"}
    shutil.rmtree(tmp_path / "docs")
    manual.open_at("Overview")
    assert "can't be read" in manual.text.toPlainText()
    manual.words.setText("Vapnik" * 100)
    qtbot.keyClick(manual.words, Qt.Key.Key_Return)
    assert manual.wrong.text().startswith("Nothing in the manual has “Vapnik")
    assert manual.wrong.text().endswith("…” in it.")


def shade_of_a_picture(manual: ManualDialog) -> int:
    """How light the first picture is that is drawn."""
    block = manual.text.document().begin()
    while "\ufffc" not in block.text():
        block = block.next()
    name = QUrl(block.begin().fragment().charFormat().toImageFormat().name())
    drawn = manual.text.document().resource(QTextDocument.ResourceType.ImageResource.value, name)
    return int(drawn.pixelColor(5, drawn.height() // 2).lightness())


def test_an_open_manual_follows_the_theme(qtbot: QtBot, manual: ManualDialog, both_themes: Theme) -> None:
    manual.resize(700, 300)
    manual.open_at("Overview")
    qtbot.waitUntil(lambda: heading_in_view(manual) == "Overview")
    assert shade_of_a_picture(manual) > 128
    both_themes.choose(ThemeChoice.DARK)
    qtbot.waitUntil(lambda: shade_of_a_picture(manual) < 128)
    assert heading_in_view(manual) == "Overview"
    assert manual.text.palette().highlight().color().name() == DARK.accent, "what is found is seen"
    manual.close()
    both_themes.choose(ThemeChoice.LIGHT)
    manual.open_at("Overview")
    assert shade_of_a_picture(manual) > 128


def test_pictures_are_of_the_window_as_it_looks(manual: ManualDialog, both_themes: Theme) -> None:
    shown = re.findall(r"!\[.+\]\((.+)\)", (shipped("docs") / START).read_text(encoding="utf-8"))
    files = {f"images/{file.name}" for file in (shipped("docs") / "images").iterdir()}
    assert files == {name.replace("light", shade) for name in shown for shade in ("light", "dark")}
    middle = {}
    for choice in (ThemeChoice.LIGHT, ThemeChoice.DARK):
        both_themes.choose(choice)
        picture = manual.text.loadResource(QTextDocument.ResourceType.ImageResource.value, QUrl(shown[0]))
        assert 0 < picture.width() < manual.width()
        middle[choice] = picture.pixelColor(5, picture.height() // 2).lightness()
    assert middle[ThemeChoice.DARK] < 128 < middle[ThemeChoice.LIGHT]


def test_nothing_else_is_loaded_for_what_a_page_names(manual: ManualDialog) -> None:
    afar = "https://example.org/images/welcome_light.png"
    for name in (afar, (shipped("docs") / START).as_uri(), "images/../window.md", "../README.md", "images/"):
        assert manual.text.loadResource(QTextDocument.ResourceType.ImageResource.value, QUrl(name)) is None
