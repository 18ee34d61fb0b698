"""The dialog that asks how a checkpoint is to be evaluated, or filmed."""

from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QCheckBox, QFormLayout, QWidget

from soulsgui.gui.widgets.command_button import Words
from soulsgui.gui.widgets.dialog import FormDialog
from soulsgui.gui.widgets.inputs import NumberBox
from soulsgui.gui.widgets.labels import muted, wrapped

_CHARACTERS = 56
_EPISODES, _FILMED = 20, 1
_MOST_EPISODES = 10_000
_LARGEST_SEED = 2**31 - 1


class EvaluateDialog(FormDialog):
    """Asks how many episodes are played, and how.

    Signals:
        wanted: With these parameters of `checkpoint.evaluate`.
    """

    wanted = Signal(dict)

    def __init__(self, what: str, film: bool, parent: QWidget | None = None) -> None:
        super().__init__("evaluateDialog", "Film episodes" if film else "Evaluate", parent)
        self._film = film
        self.episodes = NumberBox(1, _MOST_EPISODES, self)
        self.episodes.setValue(_FILMED if film else _EPISODES)
        self.seed = NumberBox(0, _LARGEST_SEED, self)
        self.seed.setToolTip("Of the first episode; each further one has the next")
        self.stochastic = QCheckBox("&Sample actions instead of taking the best ones", self)
        form = QFormLayout()
        form.addRow("&Episodes", self.episodes)
        form.addRow("&Seed", self.seed)
        form.addRow("", self.stochastic)
        words = Words("&Film" if film else "&Evaluate", "Asking …", "Asked")
        self.main = self.make_main(words, self._send, "play")
        hint = f"{what}: it plays alongside the training, in a process of lower priority."
        foot = self.foot(main=[self.main], leave="&Cancel")
        self.arrange(form, muted(wrapped(hint, self)), foot=foot, characters=_CHARACTERS)

    def _send(self) -> None:
        params: dict[str, Any] = {"episodes": self.episodes.value(), "seed": self.seed.value()}
        params["stochastic"] = self.stochastic.isChecked()
        self.wanted.emit(params | ({"video": "any"} if self._film else {}))
        self.accept()
