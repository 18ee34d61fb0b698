"""A command button that asks first where the command has a cost."""

from collections.abc import Callable

from PySide6.QtWidgets import QWidget

from soulsgui.gui.calls import MakeCall
from soulsgui.gui.dialogs.ask import ask
from soulsgui.gui.question import Question
from soulsgui.gui.widgets.command_button import CommandButton, Stage, Words


class AskingButton(CommandButton):
    """Sends its command after a yes.

    Args:
        words: What the button says.
        icon: Name of its icon.
        start: Sends the command.
        question: What to ask first; None when nothing is lost.
        parent: The widget it stands in.
    """

    def __init__(
        self,
        words: Words,
        icon: str,
        start: MakeCall,
        question: Callable[[], Question | None],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(words, icon, start, parent)
        self._question = question

    def send(self) -> None:
        """Ask where there is something to ask, then send the command."""
        if self.stage is Stage.RUNNING:
            return
        question = self._question()
        if question is None:
            super().send()
        else:
            ask(self, question, self._send_now)

    def _send_now(self) -> None:
        super().send()
