"""The window in which weights of a run are watched while they play; two of them side by side."""

from PySide6.QtCore import QByteArray, QEvent
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QSizePolicy, QWidget

from soulsgui.gui.feed import Feed
from soulsgui.gui.models.rules import run_title
from soulsgui.gui.shell import Shell
from soulsgui.gui.theme import GAP_L, GAP_M, GAP_S
from soulsgui.gui.watching.pane import WatchPane
from soulsgui.gui.widgets.boxes import DIALOG_MARGINS, column, flow
from soulsgui.gui.widgets.dialog import FittingDialog
from soulsgui.gui.widgets.fitting_button import FittingButton
from soulsgui.gui.widgets.inputs import ChoiceBox, NumberBox
from soulsgui.gui.widgets.labels import caption
from soulsgui.wire.control import RunStatus, RunSummary

_SPEEDS = {"¼ ×": 0.25, "½ ×": 0.5, "1 ×": 1.0, "2 ×": 2.0, "4 ×": 4.0, "8 ×": 8.0}
_GEOMETRY = "player/geometry"
_MOST_SEED = 999_999
_SIZE = (980, 640)


class Player(FittingDialog):
    """Plays weights of one run; the main window can be used meanwhile, and closing it ends what was played.

    Args:
        feed: The way to the server.
        shell: The window that opens it.
        run: Whose weights play.
        checkpoint: Which of them, as in `checkpoint.evaluate`; empty for the newest.
        parent: Over which window it stands.
    """

    section = "Watch it play"

    def __init__(
        self,
        feed: Feed,
        shell: Shell,
        run: RunStatus | RunSummary,
        checkpoint: str = "",
        parent: QWidget | None = None,
    ) -> None:
        super().__init__("player", f"Watch it play: {run_title(run)}", parent)
        self._feed, self._shell, self._run = feed, shell, run
        self._build()
        self.add_pane(checkpoint)
        feed.leaving.connect(self.close)
        self.resize(*_SIZE)
        geometry = shell.settings().value(_GEOMETRY)
        if isinstance(geometry, QByteArray):
            self.restoreGeometry(geometry)

    def _build(self) -> None:
        self.panes: list[WatchPane] = []
        self._beside = QHBoxLayout()
        self._beside.setSpacing(GAP_L)
        self.play = FittingButton("Pause", "pause", self)
        self.play.setMinimumWidth(self.play.full_width)  # what is beside it stands still
        self.play.explain("Space, or a click on the picture")
        self.play.clicked.connect(self._toggle)
        self.back = FittingButton("Back", "step-back", self)
        self.back.show_icon_only(True)
        self.back.clicked.connect(lambda: self._move(-1))
        self.forward = FittingButton("Step", "step-forward", self)
        self.forward.show_icon_only(True)
        self.forward.clicked.connect(lambda: self._move(1))
        self.back.explain("Pause, and show the picture before (←)")
        self.forward.explain("Pause, and show the next picture (→)")
        self.speed = ChoiceBox("Speed", self, _SPEEDS.items())
        self.speed.setCurrentText("1 ×")
        self.speed.setToolTip("As a multiple of the pace of the environment")
        self.speed.activated.connect(self._set_speed)
        self.seed = NumberBox(0, _MOST_SEED, self)
        self.seed.setToolTip("Of the first episode; each further one has the next")
        seed = caption("First &seed", self.seed, self)
        self.again = FittingButton("&Begin again", "restart", self)
        self.again.explain("Play again from the first seed")
        self.again.clicked.connect(self._begin_again)
        self.compare = FittingButton("&Compare", "compare", self)
        self.compare.setCheckable(True)
        self.compare.explain("Watch another checkpoint of the run beside it")
        self.compare.toggled.connect(self._compare)
        close = QPushButton("C&lose", self)
        close.clicked.connect(self.reject)
        for button in (self.play, self.back, self.forward, self.again, self.compare, close):
            button.setAutoDefault(False)
        left = QWidget(self)
        left.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        moves, begins = (self.play, self.back, self.forward), (self.speed, seed, self.seed, self.again)
        foot = flow(*moves, *begins, left, self.compare, close, gap_px=GAP_S)
        column((self._beside, 1), foot, on=self, margins=DIALOG_MARGINS, gap_px=GAP_M)

    def add_pane(self, checkpoint: str) -> None:
        """Show another evaluation beside those that are shown."""
        pane = WatchPane(self._feed, self._run, checkpoint, self)
        pane.set_speed(self.speed.currentData())
        pane.seed = self.seed.value()
        pane.changed.connect(self._show_playing)
        pane.episode.activated.connect(self._see_episode)
        pane.picture.key_pressed.connect(self._key)
        self.panes.append(pane)
        self._beside.addWidget(pane, 1)
        self._arrange()

    def _arrange(self) -> None:
        for pane in self.panes:
            pane.stand_narrow(len(self.panes) > 1)
        self._show_playing()

    def _compare(self, wanted: bool) -> None:
        if wanted and len(self.panes) == 1:
            self.add_pane(self.panes[0].another())
            self._begin_again()
        elif not wanted and len(self.panes) > 1:
            gone = self.panes.pop()
            gone.leave(self._shell)
            self._beside.removeWidget(gone)
            gone.hide()
            gone.deleteLater()
            self._arrange()

    @property
    def _playing(self) -> bool:
        return any(pane.playing and not pane.at_end for pane in self.panes)

    def _show_playing(self) -> None:
        words = "Pause" if self._playing else "Play"
        if self.play.text() != words:
            self.play.say(words, words.lower())
        self.play.setEnabled(any(len(pane.recording) for pane in self.panes))
        self.back.setEnabled(any(pane.recording.place for pane in self.panes))
        self.forward.setEnabled(any(pane.recording.ahead for pane in self.panes))

    def _toggle(self) -> None:
        playing = not self._playing
        for pane in self.panes:
            pane.play(playing)
        self._show_playing()

    def _see_episode(self, number: int) -> None:
        for pane in self.panes:
            pane.see_episode(number)

    def _move(self, by: int) -> None:
        for pane in self.panes:
            pane.step(by)
        self._show_playing()

    def _key(self, key: str) -> None:
        if key == "play":
            self._toggle()
        else:
            far = max(len(pane.recording) for pane in self.panes)
            self._move({"back": -1, "forward": 1, "begin": -far, "end": far}[key])

    def _set_speed(self) -> None:
        for pane in self.panes:
            pane.set_speed(self.speed.currentData())

    def _begin_again(self) -> None:
        for pane in self.panes:
            pane.seed = self.seed.value()
            if pane.checkpoint.count():
                pane.start()

    def changeEvent(self, event: QEvent) -> None:
        """Go on where somebody can see it again."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.WindowStateChange:
            for pane in self.panes:
                pane.go_on()

    def done(self, result: int) -> None:
        """End what is played, and remember where the window stood."""
        for pane in self.panes:
            pane.leave(self._shell)
        self._shell.settings().setValue(_GEOMETRY, self.saveGeometry())
        super().done(result)
