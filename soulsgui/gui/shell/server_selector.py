"""Which server the window shows: that of this computer, or one of another computer, reached by `ssh`."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QActionGroup
from PySide6.QtWidgets import QFormLayout, QLineEdit, QMenu, QPushButton, QToolButton, QWidget

from soulsgui.errors import UsageError
from soulsgui.gui.icons import dress
from soulsgui.gui.models.connection import RemoteServer
from soulsgui.gui.preferences import Preferences
from soulsgui.gui.text import plain, tip
from soulsgui.gui.widgets.command_button import give_menu
from soulsgui.gui.widgets.dialog import FittingDialog
from soulsgui.gui.widgets.labels import muted, set_tip, wrapped

THIS_COMPUTER = "This computer"
_CHARACTERS = 92
_NAME_CHARACTERS = 20


class ServerSelector(QToolButton):
    """Names the server that is shown, and offers the saved ones.

    Signals:
        wanted: Another server is to be shown; with the `RemoteServer`, None for this computer.
        add_wanted: One that is not saved yet is to be added.
    """

    wanted = Signal(object)
    add_wanted = Signal()

    def __init__(self, preferences: Preferences, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("servers")
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self._preferences = preferences
        self._choices = QMenu(self)
        self._choices.setToolTipsVisible(True)
        self._group = QActionGroup(self._choices)
        # Then, and not when one was chosen: it would be deleted while it tells of that.
        self._choices.aboutToShow.connect(self._fill)
        give_menu(self, self._choices)
        self.show_chosen()
        dress(self, "link")

    def _fill(self) -> None:
        chosen = self._preferences.server_to_show()
        self._choices.clear()
        for server in (None, *self._preferences.servers):
            action = self._choices.addAction(_title(server).replace("&", "&&"))
            where = "this computer" if server is None else f"{server.host}, by ssh: {server.command}"
            action.setToolTip(tip(f"Show the server of {where}"))
            action.setCheckable(True)
            action.setChecked(server == chosen)
            action.triggered.connect(lambda _=False, server=server: self.wanted.emit(server))
            self._group.addAction(action)
        self._choices.addSeparator()
        self._choices.addAction("&Add server…").triggered.connect(self.add_wanted)
        forget = self._choices.addAction("&Forget this server")
        forget.setEnabled(chosen is not None)
        forget.setToolTip(
            tip(f"Forget how {_title(chosen)} is reached; nothing changes there")
            if chosen is not None
            else "Only a server of another computer can be forgotten: show it first"
        )
        forget.triggered.connect(self._forget)

    def show_chosen(self) -> None:
        """Name the chosen server."""
        name = _title(self._preferences.server_to_show())
        short = name if len(name) <= _NAME_CHARACTERS else f"{name[:_NAME_CHARACTERS]}…"
        self.setText(short.replace("&", "&&"))
        self.setAccessibleName(f"Server: {name}")
        set_tip(self, f"Server: {name}. Show that of another computer")

    def _forget(self) -> None:
        chosen = self._preferences.server_to_show()
        self._preferences.keep_servers([one for one in self._preferences.servers if one != chosen])
        self.wanted.emit(None)


def _title(server: RemoteServer | None) -> str:
    return THIS_COMPUTER if server is None else plain(server.host)


class AddServerDialog(FittingDialog):
    """Asks how `ssh` reaches a server; passwords are none of its questions.

    Signals:
        added: With the `RemoteServer`.
    """

    section = "A server of another computer"

    added = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("addServerDialog", "Connect to my server", parent)
        self.host = QLineEdit(self)
        self.host.setPlaceholderText("name, user@name, or ssh://user@name:port")
        self.command = QLineEdit(RemoteServer.command, self)
        form = QFormLayout()
        form.addRow("&Host, as ssh knows it", self.host)
        form.addRow("Co&mmand of SoulsGUI there", self.command)
        about = muted(
            wrapped(
                "This window logs in there with the ssh of this computer, by your key or agent, and shows "
                "that server as if it ran here. You are asked for no password, and nothing secret is saved. "
                "A server must run there: soulsgui serve --idle",
                self,
            )
        )
        self.connect_it = QPushButton("&Connect", self)
        self.connect_it.clicked.connect(self._connect)
        foot = self.foot(main=[self.connect_it], leave="C&ancel")
        self.arrange(form, about, foot=foot, characters=_CHARACTERS)

    def _connect(self) -> None:
        try:
            server = RemoteServer(
                self.host.text().strip(), self.command.text().strip() or RemoteServer.command
            )
        except UsageError as error:
            self.wrong.setText(str(error))
            return
        self.accept()
        self.added.emit(server)
