"""The line at the foot of the window: run, clients, checkpoint, disk."""

from PySide6.QtWidgets import QHBoxLayout, QWidget

from soulsgui.gui import text
from soulsgui.gui.colours import Tone
from soulsgui.gui.states import clients_here, run_is_active, run_look
from soulsgui.gui.text import plural
from soulsgui.gui.widgets.labels import ElidedLabel, IconLabel
from soulsgui.wire.control import ClientStatus, Status


def status_words(status: Status, server: str, live: bool = True) -> str:
    """Return `my-server · lunar-2, running · 3 of 4 clients · checkpoint 2 min ago · 61 GB free`."""
    run = status.run
    parts = [server] if server else []
    word = run_look(run.state).word.lower()
    parts.append(f"{run.name or run.id}, {word}" if run.id else "no run")
    if status.clients:
        parts.append(_clients(status.clients))
    if live and run_is_active(run.state) and run.checkpoint_age_s is not None:
        parts.append(f"checkpoint {text.ago(run.checkpoint_age_s)}")
    elif run.checkpoint_env_steps is not None:
        steps = text.compact(run.checkpoint_env_steps)
        parts.append(f"checkpoint at {steps} steps")
    if status.server.disk_free_bytes:
        parts.append(f"{text.size(status.server.disk_free_bytes)} free")
    return " · ".join(parts)


def _clients(clients: list[ClientStatus]) -> str:
    here, expected = clients_here(clients)
    if here == expected:
        return plural(here, "{n} client", "{n} clients")
    return f"{here} of {expected} clients"


class StatusLine(QWidget):
    """One shortened line with the run's icon before it."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._mark = IconLabel(0, self)
        self._words = ElidedLabel("", self)
        row = QHBoxLayout(self)
        row.setContentsMargins(8, 2, 8, 2)
        row.setSpacing(6)
        row.addWidget(self._mark)
        row.addWidget(self._words, 1)

    def show_status(self, status: Status, server: str) -> None:
        """Say how the run goes."""
        look = run_look(status.run.state)
        self._mark.show_icon(look.icon, look.tone)
        self._words.setText(status_words(status, server, self.isEnabled()))

    def show_no_server(self, server: str) -> None:
        """Say that there is no server: what was known of it is past."""
        self._mark.show_icon("power", Tone.IDLE)
        self._words.setText(" · ".join(part for part in (server, "no server runs") if part))

    def dim(self, dimmed: bool) -> None:
        """Grey it out while it is not the present."""
        self.setEnabled(not dimmed)

    @property
    def words(self) -> str:
        """What it says."""
        return self._words.text()
