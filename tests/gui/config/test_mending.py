from collections.abc import Iterator
from pathlib import Path

import pytest
import shiboken6
from pytestqt.qtbot import QtBot

from soulsgui.config.editing import FileChangedError
from soulsgui.gui.config.mending import MendConfigDialog, Mending
from soulsgui.gui.theme import Theme

WRONG = "# mine\nppo:\n  gama: 0.9  # typo\n  epochs: 3\nseed: many\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "config.yaml"
    made.write_text(WRONG)
    return made


def test_a_change_by_somebody_else_is_overwritten_only_when_asked_again(path: Path) -> None:
    mending = Mending(path)
    mending.write("seed: 1\n")
    path.write_text("seed: 2\n")
    with pytest.raises(FileChangedError):
        mending.save()
    assert path.read_text() == "seed: 2\n"
    mending.save()
    assert path.read_text() == "seed: 1\n"


@pytest.fixture
def dialog(qtbot: QtBot, theme: Theme, path: Path) -> Iterator[MendConfigDialog]:
    made = MendConfigDialog(path)
    made.open()
    yield made
    if shiboken6.isValid(made):  # one that has mended the file is gone by itself
        made.close()


def test_mistakes_are_shown_and_taken_out_one_by_one_until_the_file_may_be_saved(
    qtbot: QtBot, dialog: MendConfigDialog, path: Path
) -> None:
    assert [(one.line, one.key) for one in dialog.problem_bar.problems] == [(3, "ppo.gama"), (5, "seed")]
    assert set(dialog.text.problems) == {3, 5}
    assert dialog.text.textCursor().blockNumber() + 1 == 3
    assert "ppo.gama" in dialog.take_out.toolTip()
    assert dialog.again.text() == "Try again"
    dialog.resize(440, 400)
    for button in (dialog.take_out, dialog.open_file, dialog.aside):
        assert button.text(), "however narrow it is"
    dialog.take_out.click()
    assert set(dialog.text.problems) == {4}
    dialog.again.click()
    assert "still mistakes" in dialog.wrong.text()
    assert path.read_text() == WRONG
    dialog.take_out.click()
    assert not dialog.take_out.isEnabled()
    assert dialog.again.text() == "Save and try again"
    with qtbot.waitSignal(dialog.mended):
        dialog.again.click()
    assert path.read_text() == "# mine\nppo:\n  epochs: 3\n"


def test_what_was_mended_in_another_program_is_seen(
    qtbot: QtBot, dialog: MendConfigDialog, path: Path
) -> None:
    aside = path.with_name("written")
    aside.write_text("seed: 7\n")
    aside.replace(path)
    qtbot.waitUntil(lambda: dialog.text.toPlainText() == "seed: 7\n")
    assert dialog.problem_bar.problems == []
    path.write_text("seed: 8\n")  # the new file is watched as the old one was
    qtbot.waitUntil(lambda: dialog.text.toPlainText() == "seed: 8\n")
    with qtbot.waitSignal(dialog.mended):
        dialog.again.click()


def test_a_refusal_of_the_disk_is_said(
    dialog: MendConfigDialog, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    dialog.text.setPlainText("seed: 7\n")
    dialog.again.click()
    assert "no space left" in dialog.wrong.text()
    assert str(path) in dialog.wrong.text()
    assert path.read_text() == WRONG
    dialog.text.setPlainText(WRONG)  # with nothing unsaved it closes unasked


@pytest.mark.parametrize(("written", "why"), [(b"\xff\xfe\x00\x01", "UTF-16"), (b"seed: 1 # \xe9\n", "")])
def test_a_file_that_is_no_text_is_set_aside_whole(
    qtbot: QtBot, theme: Theme, path: Path, written: bytes, why: str
) -> None:
    path.write_bytes(written)
    dialog = MendConfigDialog(path)
    dialog.open()
    assert why in dialog.mending.problems[0].reason
    assert not dialog.text.isEnabled()
    assert not dialog.take_out.isEnabled()
    with qtbot.waitSignal(dialog.mended):
        dialog.aside.click()
    (aside,) = path.parent.glob("config.yaml.*")
    assert aside.read_bytes() == written
    assert not path.exists()
