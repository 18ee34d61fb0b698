"""The line of key figures of a run: how it stands, how well it does, how fast it is."""

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QSize, QTimer
from PySide6.QtWidgets import QSizePolicy, QWidget

from soulsgui.gui import text
from soulsgui.gui.colours import Tone
from soulsgui.gui.models.rules import algorithm_title, goal_words, window_words
from soulsgui.gui.states import is_inference_server, run_is_active, run_look
from soulsgui.gui.theme import GAP_L, GAP_XS
from soulsgui.gui.widgets.boxes import NO_MARGINS, column
from soulsgui.gui.widgets.flow_layout import FlowLayout
from soulsgui.gui.widgets.labels import ElidedLabel, StateLabel, set_property, set_tip
from soulsgui.wire.control import ClientStatus, RunStatus
from soulsgui.wire.messages.chunk import Reason

_HEAD_CHARACTERS = 18
_NAME_CHARACTERS = 40
_NAMED = 2
_LEFT = "How long it takes to its goal if it continues as now: a guess"
_BEGUN = "Steps of the checkpoint that it began from, and its own, which its time is of"
_LAG = "Updates between the weights that samples were made with and the newest ones"


@dataclass(frozen=True)
class Figure:
    """One number with its name."""

    name: str
    caption: str
    value: str
    tip: str = ""
    tone: Tone = Tone.TEXT


def figures(run: RunStatus, live: bool = True, left_s: float | None = None) -> list[Figure]:
    """Return the key figures of a run, the most important ones first; `left_s` is how long it still takes."""
    goal = None if run.goal_env_steps is None else text.compact(run.goal_env_steps)
    steps_rate = text.compact(run.env_steps_per_s) if run.env_steps_per_s else text.NOTHING
    rate = text.rate(run.updates_per_s, "updates")
    ages = run.staleness.words() if run.staleness is not None else ""
    found = [
        *_returns(run),
        Figure("steps", "Steps", _of_goal(_steps(run), goal), _BEGUN if run.begun_env_steps else ""),
        Figure("rate", "Steps/s", steps_rate, "Environment steps per second"),
        Figure("updates", "Updates", text.count(run.updates), rate if rate != text.NOTHING else ""),
        Figure("lag", "Policy lag", text.value(run.policy_lag), f"{_LAG}:\n{ages}" if ages else _LAG),
        Figure("time", "Time", text.duration(run.seconds), "How long it trained, over all attempts"),
        _checkpoint(run, live),
    ]
    if left_s is not None and live:
        found.insert(-1, Figure("left", "Goal in", f"≈ {text.duration(left_s)}", _LEFT))
    return found + _losses(run)


def _steps(run: RunStatus) -> str:
    """Return its steps, those of the checkpoint that it began from apart: its time is of the others."""
    own = text.compact(run.own_env_steps)
    return f"{text.compact(run.begun_env_steps)} + {own}" if run.begun_env_steps else own


def run_words(run: RunStatus) -> str:
    """Return what is trained: `lunar-2 · LunarLander-v3 · PPO`."""
    algorithm = algorithm_title(run)
    if "GPU" in run.learns_on or "processes" in run.learns_on:
        algorithm = f"{algorithm} on {run.learns_on}"
    parts = [run.name or run.id, run.env_id, algorithm]
    if run.attempt > 1:
        parts.append(f"attempt {run.attempt}")
    return " · ".join(part for part in parts if part)


def state_words(run: RunStatus, note: str = "") -> str:
    """Return how a run stands, with what it waits for."""
    word = run_look(run.state).word
    detail = run.detail
    if detail.lower().startswith(word.lower()):
        # `Saving and ending its services` needs no `Saving` before it.
        word, detail = detail[:1].upper() + detail[1:], ""
    said = "; ".join(words for words in (detail, note) if words)
    return f"{word}: {said}" if said else word


def round_words(run: RunStatus, clients: Sequence[ClientStatus]) -> str:
    """Return who is missing from the rounds of a run because it is paused; empty when nobody is."""
    players = [client for client in clients if not is_inference_server(client)]
    paused = [client.name for client in players if client.state == "paused"]
    playing = sum(client.state in ("online", "late") for client in players)
    if run.algorithm != "ppo" or run.state != "running" or not paused or not playing:
        return ""
    names = ", ".join(paused) if len(paused) <= _NAMED else str(len(paused))
    return f"rounds of {playing} of {playing + len(paused)} clients ({names} paused)"


def _returns(run: RunStatus) -> list[Figure]:
    """Return how well it does: what is judged first, with the goal."""
    goal = None if run.goal_return is None else goal_words(run.goal_return)
    reached = goal_is_reached(run)
    tone = Tone.GOOD if reached else Tone.TEXT
    best = f"The highest mean during the run, that of its best model: {text.value(run.best_mean_return)}"
    title, mean, over = "Mean return", text.value(run.mean_return), window_words(run)
    if run.goal_judged_by != "evaluation":
        what = f"{over}: it decides whether the goal is reached."
        if run.goal_judged_by == "both":
            what = f"{over}: when it reaches the goal, greedy episodes have to confirm that."
        return [Figure("return", title, _of_goal(mean, goal), f"{what}\n{best}", tone)]
    # The mean of a run that has reached its goal is that of the evaluation that did.
    score = run.mean_return if run.reached == "mean_return" else run.evaluation_return
    value, tip = _of_goal(text.value(score), goal), f"{_evaluation_words(run)}\n{best}"
    judged = Figure("evaluation", "Evaluation", value, tip, tone)
    what = f"{over}, played in training and exploring. Evaluations decide whether the goal is reached."
    training = Figure("return", title, mean, what)
    return [judged] if reached else [judged, training]


def goal_is_reached(run: RunStatus) -> bool:
    """Whether the mean return is reached: a run that has done so is saved before it says that of itself."""
    if run.reached == "mean_return":
        return True
    if run.goal_judged_by != "evaluation" or None in (run.goal_return, run.evaluation_return):
        return False
    return (run.evaluation_return or 0.0) >= (run.goal_return or 0.0)


def _evaluation_words(run: RunStatus) -> str:
    if goal_is_reached(run):
        return "Mean return of the evaluation that reached the goal"
    if run.evaluation_return is None:
        return "No evaluation yet: the mean return of one decides whether the goal is reached."
    return "Mean return of the newest evaluation: it decides whether the goal is reached."


def _checkpoint(run: RunStatus, live: bool) -> Figure:
    steps = run.checkpoint_env_steps
    tip = "" if steps is None else f"Saved at {text.count(steps)} steps"
    if live and run_is_active(run.state):
        return Figure("checkpoint", "Checkpoint", text.ago(run.checkpoint_age_s), tip)
    # An age that nobody counts on any more would stand still.
    where = text.NOTHING if steps is None else f"at {text.compact(steps)}"
    return Figure("checkpoint", "Checkpoint", where, tip)


def _losses(run: RunStatus) -> list[Figure]:
    """Return what should be nothing, and is shown only when it is not."""
    found = []
    if any(run.rejected.values()):
        total = text.count(sum(run.rejected.values()))
        # Chunks on their way while a client leaves or joins are nothing to look into.
        tone = Tone.WARNING if set(run.rejected) - {Reason.NOT_ADMITTED} else Tone.TEXT
        found.append(Figure("rejected", "Rejected", total, text.reasons(run.rejected), tone))
    if run.lost_chunks:
        tip = "Chunks that clients sent and that never arrived"
        found.append(Figure("lost", "Lost", text.count(run.lost_chunks), tip, Tone.WARNING))
    return found


def _of_goal(value: str, goal: str | None) -> str:
    return value if goal is None else f"{value} of {goal}"


class _FigureBox(QWidget):
    """A caption over its number."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._caption = ElidedLabel("", self)
        self._caption.setProperty("weight", "muted")
        self._value = ElidedLabel("", self)
        self._value.setProperty("heading", "0")
        column(self._caption, self._value, on=self, margins=NO_MARGINS, gap_px=0)

    def show_figure(self, figure: Figure) -> None:
        self._caption.setText(figure.caption)
        self._value.setText(figure.value)
        set_property(self._value, "tone", figure.tone)
        set_tip(self, figure.tip)
        self.setAccessibleName(f"{figure.caption}: {figure.value}")
        self.setAccessibleDescription(figure.tip)
        # Rounded up, so that the row does not move with every digit.
        step = 3 * self.fontMetrics().averageCharWidth()
        room = max(label.sizeHint().width() for label in (self._caption, self._value))
        self.setFixedWidth(-(-room // step) * step)


class _Head(QWidget):
    """How the run stands over what it is called; neither is left to a tooltip, but for long names."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.state = StateLabel(self)
        self.run = ElidedLabel("", self)
        self.run.setProperty("weight", "muted")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        column(self.state, self.run, on=self, margins=NO_MARGINS, gap_px=0)

    def minimumSizeHint(self) -> QSize:
        character = self.fontMetrics().averageCharWidth()
        name = min(self.run.sizeHint().width(), _NAME_CHARACTERS * character)
        width = max(_HEAD_CHARACTERS * character, self.state.sizeHint().width(), name)
        return QSize(width, super().minimumSizeHint().height())


class FiguresRow(QWidget):
    """State, name and key figures of the run: in one line, or in several where there is no room for that."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._head = _Head(self)
        self._row = FlowLayout(GAP_L, parent=self)
        self._row.setContentsMargins(GAP_XS, 0, GAP_XS, 0)
        self._row.addWidget(self._head)
        self._boxes: dict[str, _FigureBox] = {}
        self._known: RunStatus | None = None
        self._note = ""
        self._left_s: float | None = None

    def show_left(self, left_s: float | None) -> None:
        """Say how long the run still takes to its goal; None while nobody can tell."""
        self._left_s = left_s

    def show_note(self, note: str) -> None:
        """Say something beside the state; empty for nothing."""
        if note != self._note:
            self._note = note
            self._show_again()

    def show_run(self, run: RunStatus) -> None:
        """Show how a run stands."""
        self._known = run
        self._head.state.show_look(run_look(run.state), state_words(run, self._note))
        self._head.run.setText(run_words(run))
        found = figures(run, self.isEnabled(), self._left_s)
        for gone in self._boxes.keys() - {figure.name for figure in found}:
            box = self._boxes.pop(gone)
            box.hide()
            box.deleteLater()
        for place, figure in enumerate(found, 1):
            if figure.name not in self._boxes:
                self._boxes[figure.name] = _FigureBox(self)
                self._row.insert_widget(place, self._boxes[figure.name])
            self._boxes[figure.name].show_figure(figure)
        self._boxes = {figure.name: self._boxes[figure.name] for figure in found}

    def minimumSizeHint(self) -> QSize:
        """Never make the page wider than its widest figure: the others stand below."""
        widest = max((box.minimumWidth() for box in self._boxes.values()), default=0)
        return QSize(widest + 2 * GAP_XS, super().minimumSizeHint().height())

    def changeEvent(self, event: QEvent) -> None:
        """Follow the font's size."""
        if event.type() == QEvent.Type.FontChange:
            # The labels get the font a moment later.
            QTimer.singleShot(0, self, self._show_again)
        elif event.type() == QEvent.Type.EnabledChange:
            self._show_again()
        super().changeEvent(event)

    def _show_again(self) -> None:
        if self._known is not None:
            self.show_run(self._known)

    @property
    def words(self) -> str:
        """All it says."""
        boxes = [box.accessibleName() for box in self._boxes.values()]
        return "\n".join([self._head.state.word, self._head.run.text(), *boxes])
