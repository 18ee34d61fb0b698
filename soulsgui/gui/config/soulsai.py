"""What became of a SoulsAI configuration that was imported into the editor."""

from PySide6.QtWidgets import QPlainTextEdit, QWidget

from soulsgui.config.soulsai import Imported
from soulsgui.gui.text import plain, plural
from soulsgui.gui.widgets.dialog import FittingDialog
from soulsgui.gui.widgets.labels import caption, wrapped

KINDS = "SoulsAI configurations (*.yaml *.yml *.json);;All files (*)"

_CHARACTERS, _LINES = 90, 24


class ImportedDialog(FittingDialog):
    """Says how much was taken over, and lists what was not."""

    section = "Config"

    def __init__(self, found: Imported, parent: QWidget) -> None:
        super().__init__("importedDialog", "Imported from SoulsAI", parent)
        number = len(found.taken)
        taken = plural(number, "One setting was taken over.", "{n} settings were taken over.")
        told = f"{taken} Nothing is saved yet: see the differences."
        self.left_out = QPlainTextEdit(plain("\n".join(found.left_out_words), None), self)
        self.left_out.setReadOnly(True)
        self.left_out.setTabChangesFocus(True)
        self.left_out.setProperty("role", "field")
        title = caption("&Not taken over", self.left_out, self)
        for part in (title, self.left_out):
            part.setVisible(bool(found.left_out))
        self.arrange(wrapped(told, self), title, (self.left_out, 1), foot=self.foot())
        metrics = self.fontMetrics()
        self.resize(metrics.averageCharWidth() * _CHARACTERS, metrics.lineSpacing() * _LINES)
