"""The line of key figures of a run: how it stands, how well it does, how fast it is."""

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QSize, QTimer
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from soulsgui.gui import text
from soulsgui.gui.colours import Tone
from soulsgui.gui.i18n import plural, tr
from soulsgui.gui.run_actions import algorithm_title
from soulsgui.gui.states import run_is_active, run_look
from soulsgui.gui.widgets.labels import ElidedLabel, StateLabel, set_property, set_tip
from soulsgui.wire.control import RunStatus, ServiceStatus
from soulsgui.wire.messages.chunk import Reason

_GAP_CHARACTERS = 2
_HEAD_CHARACTERS = 18
_NAME_CHARACTERS = 40
_MARGIN_PX = 4


@dataclass(frozen=True)
class Figure:
    """One number with its name.

    Attributes:
        name: Tells it from the others.
        caption: What it is.
        value: The number as it is read.
        tip: What else there is to know.
        tone: Its colour.
    """

    name: str
    caption: str
    value: str
    tip: str = ""
    tone: Tone = Tone.TEXT


def figures(run: RunStatus, live: bool = True) -> list[Figure]:
    """Return the key figures of a run, the most important ones first.

    Args:
        run: How it stands.
        live: Whether that is the present.
    """
    found = [
        *_returns(run),
        Figure("steps", tr("Steps"), _of_goal(text.compact(run.env_steps), _goal_steps(run))),
        Figure("rate", tr("Steps/s"), _number(run.env_steps_per_s), tr("Environment steps per second")),
        _updates(run),
        Figure(
            "lag",
            tr("Policy lag"),
            text.value(run.policy_lag),
            _lag_words(run),
        ),
        Figure("time", tr("Time"), text.duration(run.seconds), tr("How long it trained, over all attempts")),
        _checkpoint(run, live),
    ]
    return found + _losses(run)


def _lag_words(run: RunStatus) -> str:
    said = tr("Updates between the weights that samples were made with and the newest ones")
    ages = run.staleness.words() if run.staleness is not None else ""
    return f"{said}:\n{ages}" if ages else said


def with_present_rates(run: RunStatus, services: Sequence[ServiceStatus]) -> RunStatus:
    """Return a run without the rates of a trainer that rests, or does not run any more."""
    trainer = next((service for service in services if service.kind == "trainer"), None)
    if run.state != "paused" and (trainer is None or trainer.state == "running"):
        return run
    return run.model_copy(update={"env_steps_per_s": 0.0, "updates_per_s": 0.0})


def run_words(run: RunStatus) -> str:
    """Return what is trained: `lunar-2 · LunarLander-v3 · PPO`."""
    algorithm = algorithm_title(run)
    if "GPU" in run.learns_on or "processes" in run.learns_on:
        algorithm = tr("{algorithm} on {hardware}").format(algorithm=algorithm, hardware=run.learns_on)
    parts = [run.name or run.id, run.env_id, algorithm]
    if run.attempt > 1:
        parts.append(tr("attempt {number}").format(number=run.attempt))
    return " · ".join(part for part in parts if part)


def state_words(run: RunStatus, note: str = "") -> str:
    """Return how a run stands, with what it waits for.

    Args:
        run: The run.
        note: What else there is to say of it.
    """
    word = run_look(run.state).word
    detail = run.detail
    if detail.lower().startswith(word.lower()):
        # `Saving and ending its services` needs no `Saving` before it.
        word, detail = detail[:1].upper() + detail[1:], ""
    said = "; ".join(words for words in (detail, note) if words)
    return f"{word}: {said}" if said else word


def goal_words(goal: float) -> str:
    """Return a goal as the user wrote it: `475`."""
    return f"{goal:,g}"


def window_words(run: RunStatus) -> str:
    """Return what the mean return is over: `Mean of the last 20 episodes`."""
    if not run.goal_window:
        return tr("Mean of the last episodes (stop.window)")
    return plural(run.goal_window, "Return of the last episode", "Mean of the last {n} episodes")


def _returns(run: RunStatus) -> list[Figure]:
    """Return how well it does: what is judged first, with the goal."""
    goal = None if run.goal_return is None else goal_words(run.goal_return)
    reached = goal_is_reached(run)
    tone = Tone.GOOD if reached else Tone.TEXT
    best = tr("The highest mean during the run, that of its best model: {value}")
    best = best.format(value=text.value(run.best_mean_return))
    title = tr("Mean return")
    if run.goal_judged_by != "evaluation":
        decides = tr("{mean}: it decides whether the goal is reached.")
        if run.goal_judged_by == "both":
            decides = tr("{mean}: when it reaches the goal, greedy episodes have to confirm that.")
        what = decides.format(mean=window_words(run))
        return [Figure("return", title, _of_goal(text.value(run.mean_return), goal), f"{what}\n{best}", tone)]
    # The mean of a run that has reached its goal is that of the evaluation that did.
    score = run.mean_return if run.reached == "mean_return" else run.evaluation_return
    judged = Figure(
        "evaluation",
        tr("Evaluation"),
        _of_goal(text.value(score), goal),
        f"{_evaluation_words(run)}\n{best}",
        tone,
    )
    explains = tr("{mean}, played in training and exploring. Evaluations decide whether the goal is reached.")
    what = explains.format(mean=window_words(run))
    training = Figure("return", title, text.value(run.mean_return), what)
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
        return tr("Mean return of the evaluation that reached the goal")
    if run.evaluation_return is None:
        return tr("No evaluation yet: the mean return of one decides whether the goal is reached.")
    return tr("Mean return of the newest evaluation: it decides whether the goal is reached.")


def _updates(run: RunStatus) -> Figure:
    rate = text.rate(run.updates_per_s, tr("updates"))
    return Figure("updates", tr("Updates"), text.count(run.updates), rate if rate != text.NOTHING else "")


def _checkpoint(run: RunStatus, live: bool) -> Figure:
    steps = run.checkpoint_env_steps
    tip = "" if steps is None else tr("Saved at {steps} steps").format(steps=text.count(steps))
    if live and run_is_active(run.state):
        return Figure("checkpoint", tr("Checkpoint"), text.ago(run.checkpoint_age_s), tip)
    # An age that nobody counts on any more would stand still.
    where = text.NOTHING if steps is None else tr("at {steps}").format(steps=text.compact(steps))
    return Figure("checkpoint", tr("Checkpoint"), where, tip)


def _losses(run: RunStatus) -> list[Figure]:
    """Return what should be nothing, and is shown only when it is not."""
    found = []
    if any(run.rejected.values()):
        total = text.count(sum(run.rejected.values()))
        # Chunks on their way while a client leaves or joins are nothing to look into.
        tone = Tone.WARNING if set(run.rejected) - {Reason.NOT_ADMITTED} else Tone.TEXT
        found.append(Figure("rejected", tr("Rejected"), total, text.reasons(run.rejected), tone))
    if run.lost_chunks:
        tip = tr("Chunks that clients sent and that never arrived")
        found.append(Figure("lost", tr("Lost"), text.count(run.lost_chunks), tip, Tone.WARNING))
    return found


def _goal_steps(run: RunStatus) -> str | None:
    return None if run.goal_env_steps is None else text.compact(run.goal_env_steps)


def _of_goal(value: str, goal: str | None) -> str:
    return value if goal is None else tr("{value} of {goal}").format(value=value, goal=goal)


def _number(rate: float) -> str:
    return text.compact(rate) if rate else text.NOTHING


class _FigureBox(QWidget):
    """A caption over its number."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._caption = ElidedLabel("", self)
        self._caption.setProperty("weight", "muted")
        self._value = ElidedLabel("", self)
        self._value.setProperty("heading", "0")
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self._caption)
        column.addWidget(self._value)

    def show_figure(self, figure: Figure) -> None:
        self._caption.setText(figure.caption)
        self._value.setText(figure.value)
        set_property(self._value, "tone", figure.tone)
        set_tip(self, figure.tip)
        self.setAccessibleName(f"{figure.caption}: {figure.value}")
        self.setAccessibleDescription(figure.tip)

    @property
    def room(self) -> int:
        """Pixels that its words need."""
        return max(label.sizeHint().width() for label in (self._caption, self._value))


def in_lines(widths: Sequence[int], room: int, gap: int) -> list[list[int]]:
    """Return which boxes stand in which line: as many side by side as there is room for.

    Args:
        widths: Of each box, pixels.
        room: Of a line, pixels.
        gap: Between two boxes, pixels.
    """
    lines: list[list[int]] = []
    left = 0
    for number, width in enumerate(widths):
        if lines and width + gap <= left:
            lines[-1].append(number)
            left -= width + gap
        else:
            lines.append([number])
            left = room - width
    return lines


class FiguresRow(QWidget):
    """State, name and key figures of the run: in one line, or in several where there is no room for that."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._state = StateLabel(self)
        self._run = ElidedLabel("", self)
        self._run.setProperty("weight", "muted")
        self._head = QWidget(self)
        head = QVBoxLayout(self._head)
        head.setContentsMargins(0, 0, 0, 0)
        head.setSpacing(0)
        head.addWidget(self._state)
        head.addWidget(self._run)
        self._grid = QVBoxLayout(self)
        self._grid.setContentsMargins(_MARGIN_PX, 0, _MARGIN_PX, 0)
        self._grid.setSpacing(2)
        self._lines: list[QHBoxLayout] = []
        self._arranged: tuple[object, ...] = ()
        self._boxes: dict[str, _FigureBox] = {}
        self._known: RunStatus | None = None
        self._note = ""
        self._arrange()

    def show_note(self, note: str) -> None:
        """Say something beside the state; empty for nothing."""
        if note != self._note:
            self._note = note
            self._show_again()

    def show_run(self, run: RunStatus) -> None:
        """Show how a run stands."""
        self._known = run
        self._state.show_look(run_look(run.state), state_words(run, self._note))
        self._run.setText(run_words(run))
        found = figures(run, self.isEnabled())
        names = [figure.name for figure in found]
        for name in [name for name in self._boxes if name not in names]:
            box = self._boxes.pop(name)
            box.hide()
            box.deleteLater()
        for figure in found:
            if figure.name not in self._boxes:
                self._boxes[figure.name] = _FigureBox(self)
            box = self._boxes[figure.name]
            box.show_figure(figure)
            # Rounded up, so that the row does not move with every digit.
            step = 3 * self.fontMetrics().averageCharWidth()
            box.setFixedWidth(-(-box.room // step) * step)
        self._boxes = {name: self._boxes[name] for name in names}  # in their order, also new ones
        self._arrange()

    # --- room ---

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Arrange it anew."""
        super().resizeEvent(event)
        self._arrange()

    def minimumSizeHint(self) -> QSize:
        """Never make the page wider than its widest figure: the others stand below."""
        widest = max((box.minimumWidth() for box in self._boxes.values()), default=0)
        return QSize(widest + 2 * _MARGIN_PX, super().minimumSizeHint().height())

    def _arrange(self) -> None:
        """Put every box into its line; nothing is touched while all of them are where they belong."""
        gap = _GAP_CHARACTERS * self.fontMetrics().averageCharWidth()
        character = self.fontMetrics().averageCharWidth()
        # Neither what is said of the state nor what is trained must be left to a tooltip, but for long names.
        name = min(self._run.sizeHint().width(), _NAME_CHARACTERS * character)
        head = max(_HEAD_CHARACTERS * character, self._state.sizeHint().width(), name)
        room = self.width() - 2 * _MARGIN_PX
        names = list(self._boxes)
        widths = [box.minimumWidth() for box in self._boxes.values()]
        lines = [[*range(len(names))]]
        if head + sum(widths) + gap * len(widths) > room:
            lines = [[], *in_lines(widths, room, gap)]
        arranged = (gap, [[names[number] for number in line] for line in lines])
        if arranged == self._arranged:
            return
        self._arranged = arranged
        self._take_apart()
        for place, line in enumerate(lines):
            row = QHBoxLayout()
            row.setSpacing(gap)
            if place == 0:
                row.addWidget(self._head, 5)
            for number in line:
                row.addWidget(self._boxes[names[number]])
            if place:
                row.addStretch(1)
            self._lines.append(row)
            self._grid.addLayout(row)

    def _take_apart(self) -> None:
        for row in self._lines:
            while row.takeAt(0) is not None:
                pass
            self._grid.removeItem(row)
        self._lines.clear()

    def changeEvent(self, event: QEvent) -> None:
        """Follow the font's size."""
        if event.type() == QEvent.Type.FontChange and hasattr(self, "_grid"):
            # The labels get the font a moment later.
            QTimer.singleShot(0, self, self._show_again)
        elif event.type() == QEvent.Type.EnabledChange and self._known is not None:
            self.show_run(self._known)
        super().changeEvent(event)

    def _show_again(self) -> None:
        if self._known is not None:
            self.show_run(self._known)

    @property
    def words(self) -> str:
        """All it says."""
        boxes = [box.accessibleName() for box in self._boxes.values()]
        return "\n".join([self._state.word, self._run.text(), *boxes])
