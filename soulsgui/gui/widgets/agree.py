"""The question whether what a server or a run names may run on this computer."""

from collections.abc import Callable

from PySide6.QtWidgets import QCheckBox, QFormLayout, QWidget

from soulsgui.gui.feed import Call, MakeCall
from soulsgui.gui.widgets.command_button import Words
from soulsgui.gui.widgets.dialog import FormDialog
from soulsgui.gui.widgets.labels import Label, muted, wrapped
from soulsgui.wire.messages.server_config import Execution

_CHARACTERS = 70

_ELSEWHERE = (
    "It would run on the server's computer. Until you agree nothing of it does. "
    "Agree only if you know where the run comes from."
)


class AgreeDialog(FormDialog):
    """Shows all that would be executed, and asks for a yes.

    Args:
        title: Who wants that.
        asks: What would be executed.
        send: Sends the yes; told whether it is one to everything that follows.
        hint: What happens without it.
        always: The words of a box that makes it one; empty without it.
        parent: Where it is asked.
    """

    def __init__(
        self,
        title: str,
        asks: Execution,
        send: Callable[[bool], Call | None],
        hint: str,
        always: str = "",
        parent: QWidget | None = None,
    ) -> None:
        super().__init__("agreeDialog", title, parent)
        self.asks = asks
        self.always = QCheckBox(always, self)
        form = QFormLayout()
        for name, value in asks.words().items():
            form.addRow(
                muted(Label(name.capitalize(), self)), wrapped(value, self, selectable=True, whole=True)
            )
        self.always.setVisible(bool(always))
        if always:
            form.addRow(self.always)
        words = Words("&Run it here", "Agreeing …", "Agreed")
        self.run = self.make_main(words, lambda: send(self.always.isChecked()))
        self.run.finished.connect(self.accept)
        foot = self.foot(main=[self.run], leave="&Not now")
        self.arrange(form, muted(wrapped(hint, self)), foot=foot, characters=_CHARACTERS)
        # A yes is given on purpose, not by a key that was meant for something else.
        self.run.setDefault(False)
        self.leave.setFocus()


def run_dialog(asks: Execution, send: MakeCall, parent: QWidget) -> AgreeDialog:
    """Return the question about what a run from elsewhere would execute."""
    return AgreeDialog("This run comes from elsewhere", asks, lambda _: send(), _ELSEWHERE, parent=parent)
