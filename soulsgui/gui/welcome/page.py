"""The first page anybody sees: four ways to begin, and the last runs."""

from functools import partial

from PySide6.QtCore import Qt
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QFrame, QPushButton, QSizePolicy, QWidget

from soulsgui.gui.colours import Tone
from soulsgui.gui.feed import Call, Feed
from soulsgui.gui.icons import dress, make_primary
from soulsgui.gui.models.connection import ConnectionState, why_not
from soulsgui.gui.models.rules import run_title
from soulsgui.gui.shell import Shell, notify_problem
from soulsgui.gui.shell.pages import CLIENT, OVERVIEW, RUNS
from soulsgui.gui.states import run_is_active, run_look
from soulsgui.gui.text import count
from soulsgui.gui.theme import GAP_L, GAP_M, GAP_XL, GAP_XS
from soulsgui.gui.widgets.boxes import NO_MARGINS, column, flow
from soulsgui.gui.widgets.command_button import CommandButton, Words, allow
from soulsgui.gui.widgets.labels import Heading, IconLabel, Prose, Remark, keep_place, muted, wrapped
from soulsgui.installing import can_train, how_to_train

TRY_IT_PRESET = "cartpole_ppo"
_ICON_PX = 44
_TILE_CHARACTERS = 24
_RECENT = 4


class Tile(QFrame):
    """One way to begin: an icon, a title, what it does, and a button."""

    def __init__(self, icon: str, title: str, words: str, button: QPushButton, parent: QWidget) -> None:
        super().__init__(parent)
        self.setProperty("part", "card")
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)  # all of one width
        mark = IconLabel(_ICON_PX, self)
        mark.show_icon(icon, Tone.ACCENT)
        heading = Heading(title, 1, self)
        heading.setWordWrap(True)
        text = muted(Prose(words, self))
        text.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft)
        self.why = Remark(self, "warning")  # why the button is off
        # A reason that comes or goes moves no tile of the next row.
        keep_place(self.why)
        self.why.setMinimumHeight(self.fontMetrics().lineSpacing())
        column(
            mark,
            heading,
            (text, 1),
            self.why,
            button,
            on=self,
            margins=(GAP_XL, GAP_L, GAP_XL, GAP_L),
            gap_px=GAP_M,
        )


def _why_no_training(remote: bool) -> str:
    """Return what this computer lacks to train, and how to get it; empty when it can, or another one does."""
    if remote or can_train():
        return ""
    return (
        "This computer was set up to play only: PyTorch, which training needs, is not installed. "
        f"To train here: {how_to_train()}"
    )


class WelcomePage(QWidget):
    """Try it, train here, help a server, or connect to one's own; and the last runs."""

    def __init__(self, feed: Feed, shell: Shell, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("welcomePage")
        self._feed = feed
        self._shell = shell
        self._make_buttons()
        self._build()
        feed.connection_changed.connect(self._update)
        feed.run_changed.connect(self._update)
        feed.snapshot_taken.connect(self._update)
        self._lists = feed.lists
        self._lists.runs.changed.connect(self._show_recent)
        self._lists.runs.want()
        self._lists.presets.want()
        self._show_recent()

    def _make_buttons(self) -> None:
        words = Words("Tr&y it now", "Starting …", "Started")
        self.try_it = CommandButton(words, "play", self._start, self)
        self.try_it.problem.connect(partial(notify_problem, self._shell))
        self.train = QPushButton("New r&un…", self)
        dress(self.train, "add")
        self.train.clicked.connect(lambda: self._shell.open_new_run())
        self.help = QPushButton("&Help a server", self)
        dress(self.help, "service-client")
        self.help.clicked.connect(lambda: self._shell.show_page(CLIENT))
        self.connect_it = QPushButton("C&onnect…", self)
        dress(self.connect_it, "link")
        self.connect_it.clicked.connect(self._shell.open_add_server)
        make_primary(self.help if _why_no_training(self._feed.remote) else self.try_it)

    def _build(self) -> None:
        where, begins = "this computer", "This computer becomes the server: it"
        if self._feed.remote:
            where, begins = "the server", "The server"
        self.tiles = (
            Tile(
                "tile-try",
                "Try it (CartPole)",
                f"Trains an agent to balance a pole, with two players on {where}. "
                "A curve moves within seconds; it is solved within a minute.",
                self.try_it,
                self,
            ),
            Tile(
                "service-trainer",
                "Train here",
                f"Choose a preset or your own settings. {begins} trains, "
                "and other computers may play for it.",
                self.train,
                self,
            ),
            Tile(
                "page-clients",
                "Help a server",
                "This computer plays, and a server learns from what it sees. It takes one switch.",
                self.help,
                self,
            ),
            Tile(
                "server",
                "Connect to my server",
                "A server of yours on another computer, reached by ssh: this window then controls it "
                "as if it ran here.",
                self.connect_it,
                self,
            ),
        )
        for tile in self.tiles:
            tile.setMinimumWidth(self.fontMetrics().averageCharWidth() * _TILE_CHARACTERS)
        lead = "One computer trains, many play, and you control all of it from here."
        tiles = flow(*self.tiles, gap_px=GAP_L, columns=True)
        self.recent = QWidget(self)
        title = Heading("Recent runs", 1, self.recent)
        self._recent_rows = column(title, on=self.recent, margins=NO_MARGINS, gap_px=GAP_XS)
        self.recent.hide()
        head = column(Heading("Welcome to SoulsGUI", 2, self), muted(wrapped(lead, self)), gap_px=GAP_XS)
        parts = head, tiles, self.recent, None
        column(*parts, on=self, margins=(GAP_XL, GAP_M, GAP_XL, GAP_XL), gap_px=GAP_L)

    def _show_recent(self) -> None:
        for old in self.recent.findChildren(QPushButton):
            old.deleteLater()
        runs = self._lists.runs.entries[:_RECENT]
        for run in runs:
            look = run_look(run.state)
            words = f"{run_title(run)} — {run.env_id}, {count(run.env_steps)} steps, {look.word.lower()}"
            button = QPushButton(words.replace("&", "&&"), self.recent)
            button.setProperty("role", "flat")
            dress(button, look.icon, look.tone)
            button.clicked.connect(lambda _=False, run=run.id: self._shell.show_page(RUNS, run=run))
            self._recent_rows.addWidget(button, 0, Qt.AlignmentFlag.AlignLeft)
        self.recent.setVisible(bool(runs))

    def _start(self) -> Call:
        # As overrides the preset's values win over settings of the user's own: it is CartPole that is tried.
        values = {preset.name: preset.values for preset in self._lists.presets.entries}
        wish = {"preset": TRY_IT_PRESET, "overrides": values.get(TRY_IT_PRESET, {}), "name": "Try it"}
        call = self._feed.call("run.start", wish)
        # What it does next is seen there: its services start, then the curve moves.
        self._shell.show_page(OVERVIEW)
        return call

    def showEvent(self, event: QShowEvent) -> None:
        """Say what can be done now."""
        super().showEvent(event)
        self._update()

    def _update(self) -> None:
        if not self.isVisible():
            return
        connection = self._feed.connection
        lacks = _why_no_training(self._feed.remote)
        refusal = lacks or why_not(connection)
        run = self._feed.status.run
        active = not refusal and run_is_active(run.state)
        busy = f"“{run_title(run)}” is active; stop it first." if active else ""
        self.try_it.allow(refusal or busy)
        # While it starts, the banner says so.
        away = lacks or ("" if connection.coming or connection.state is ConnectionState.WELCOME else refusal)
        self.tiles[0].why.setText(busy or away)
        self.tiles[1].why.setText(away)
        allow(self.train, refusal)
