"""What a page may ask of the window around it."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from PySide6.QtCore import QSettings, SignalInstance

from soulsgui.gui.client_mode.runner import ClientSide
from soulsgui.gui.feed import Call
from soulsgui.system import atomic_write, explained
from soulsgui.wire.control import ApiError, RunStatus, RunSummary

INVITATION = "invitation"
"""What messages are about that tell of opening or accepting one."""


class Action(NamedTuple):
    """A button of a message: what it says, and what it does."""

    words: str
    act: Callable[[], None]


class Shell(Protocol):
    """The window, as its pages see it."""

    def notify(
        self, level: str, text: str, detail: str = "", action: Action | None = None, about: str = ""
    ) -> None:
        """Show a message below the pages: `info` and `success` go by themselves, `warning` and `error` stay.

        It takes the place of an older one `about` the same, and `settle` takes it away.
        """

    def settle(self, about: str) -> None:
        """Take away what was said about something: it holds no longer."""

    def show_page(self, name: str, **where: Any) -> None:
        """Bring a page to the front; its `show_where` is told what it is to show there."""

    def open_new_run(
        self, overrides: dict[str, Any] | None = None, preset: str = "", checkpoint: str = ""
    ) -> None:
        """Open the dialog that begins a run; `overrides` by dotted key win over the chosen settings.

        From a checkpoint (`RUN/PATH`) it begins with the settings of that in place of one's own.
        """

    def open_player(self, run: RunStatus | RunSummary, checkpoint: str = "") -> None:
        """Open the window in which weights of a run are watched; which, as in `checkpoint.evaluate`."""

    def open_config(self) -> None:
        """Open the editor of the configuration as a dialog."""

    def open_invite(self) -> None:
        """Open the dialog that invites other computers."""

    def open_add_server(self) -> None:
        """Open the dialog that shows a server of another computer here."""

    def client_side(self) -> ClientSide:
        """Return what the window knows of client mode."""

    def settings(self) -> QSettings:
        """Return where this window keeps what it remembers."""


def notify_problem(shell: Shell, error: ApiError, about: str = "") -> None:
    """Show why a command was refused, with what to do about it; that no answer came, until one does."""
    shell.notify("error", error.message, error.remedy, about=about or error.message)


def carry_out(shell: Shell, call: Call, done: Callable[[Any], object] | SignalInstance) -> None:
    """Go on with the result of a command that no button has sent; show why there is none."""
    call.done.connect(done)
    call.tell_problem(partial(notify_problem, shell))


def write_file(shell: Shell, path: str, content: Callable[[], bytes]) -> None:
    """Write a file of this computer whole or not at all, and tell what became of it."""
    try:
        atomic_write(Path(path), content())
    except OSError as error:
        why, _ = explained(error)  # whose remedy is for the folders of a server
        shell.notify("error", f"It was not saved: {why}", "Choose another folder.")
    else:
        shell.notify("success", f"Saved as {path}")


def export_file(shell: Shell, path: str, call: Call) -> None:
    """Tell where a job has brought its file, and how that was checked; show why there is none."""
    carry_out(shell, call, lambda told: shell.notify("success", f"Exported to {path}", told.checked))
