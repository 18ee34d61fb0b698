"""Why something can't be done now, by the runner (`allowed`) or by the window; what is asked first. Pure."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from soulsgui.gui import text
from soulsgui.gui.models.connection import Connection, why_not
from soulsgui.gui.states import client_look, run_is_active
from soulsgui.wire.control import CheckpointInfo, ClientStatus, RunStatus, RunSummary, ServiceStatus, Status
from soulsgui.wire.control.states import is_paused_there
from soulsgui.wire.messages.server_config import algorithm_name


@dataclass(frozen=True)
class Question:
    """A question with one way on.

    Attributes:
        title: What is about to be done.
        sentence: What it costs.
        yes: The words of the button.
        about: What it would be done to: a yes holds for nothing else.
    """

    title: str
    sentence: str
    yes: str
    about: object = None

    def of(self, *about: object) -> "Question":
        """Return the question about these."""
        return replace(self, about=about)


SCORE_TITLES = {
    "best_mean_return": "mean return of the best model",
    "mean_return": "last mean return",
    "evaluation_return": "last evaluation",
}
"""What runs are judged by, as people call it."""

STOP_SWEEP = Question("Stop the sweep?", "Its running trials end now and count as pruned.", "Stop")

_AT_GOAL = ("mean_return", "env_steps")
_GONE = ("left", "revoked", "refused")
_UP = ("starting", "running", "stopping", "backoff")


def run_title(run: RunStatus | RunSummary) -> str:
    """Return how a run is called on screen."""
    return text.plain(run.name or run.id)


def short_name(name: str) -> str:
    """Return the name in the id of an experiment or a sweep, which stands behind day and time."""
    return "_".join(name.split("_")[2:]) or name


def goal_words(goal: float) -> str:
    """Return a goal as the user wrote it: `475`."""
    return f"{goal:,g}"


def window_words(run: RunStatus) -> str:
    """Return what the mean return is over: `Mean of the last 20 episodes`."""
    if not run.goal_window:
        return "Mean of the last episodes (stop.window)"
    if run.goal_window == 1:
        return "Return of the last episode"
    return f"Mean of the last {run.goal_window:,} episodes"


def algorithm_title(run: RunStatus | RunSummary) -> str:
    """Return how what a run learns with is called on screen, such as QR-DQN; empty while there is no run."""
    return algorithm_name(run.algorithm, run.agent).replace("_", "-").upper()


def why_refused(command: str, connection: Connection, status: Status) -> str:
    """Return why a command about the whole would be refused now; empty where it would not."""
    return why_not(connection) or status.allowed.get(command, "")


def has_reached(run: RunStatus | RunSummary) -> bool:
    """Whether a run is over because it reached its goal: it goes on without that alone."""
    return run.reached in _AT_GOAL and not run_is_active(run.state)


def why_not_resumed(chosen: RunSummary | CheckpointInfo | None, what: str = "run") -> str:
    """Return why the runner would not go on with a run or from a checkpoint, empty when it would."""
    return f"Choose a {what} first." if chosen is None else chosen.allowed.get("run.resume", "")


def resume_question(run: RunSummary, active: RunStatus) -> Question | None:
    """Return what to ask before a run is gone on with; None when nothing is lost."""
    if not run_is_active(active.state) or active.id == run.id:
        return None
    heading = f"Stop {run_title(active)} and resume {run_title(run)}?"
    return Question(heading, _stopping_words(active), "Stop and resume")


def _stopping_words(active: RunStatus) -> str:
    """Return what stopping the active run costs."""
    words = f"{run_title(active)} is stopped first; it saves before it ends"
    if active.checkpoint_age_s is not None:
        words += f" (last checkpoint {text.ago(active.checkpoint_age_s)})"
    return f"{words}."


def load_question(checkpoint: CheckpointInfo, run: RunSummary, active: RunStatus) -> Question:
    """Return what to ask before the run that goes on continues from a checkpoint, of it or of another run."""
    sentences = [f"{run_title(active)} is saved first; its clients stay."]
    sentences.append(f"It continues from update {text.count(checkpoint.updates)} as a new attempt.")
    if active.id == run.id and active.env_steps > checkpoint.env_steps:
        steps = text.count(active.env_steps - checkpoint.env_steps)
        sentences.append(f"The {steps} steps after it stay on the curves, marked as overwritten.")
    return Question(f"Load this checkpoint into {run_title(active)}?", " ".join(sentences), "Load")


_ROTATED = ("current", "previous", "best")


def why_not_trashed(chosen: CheckpointInfo | None, goes_on: bool) -> str:
    """Return why a checkpoint of a run, which may go on, can't be thrown away; empty when it can."""
    if chosen is None:
        return "Choose a checkpoint first."
    if chosen.pinned:
        return "It is pinned: unpin it first."
    kept = goes_on and chosen.kind in _ROTATED
    return "The run is active and needs it in case of a crash." if kept else ""


def why_run_not_trashed(chosen: RunSummary | None, active: RunStatus) -> str:
    """Return why a run can't be thrown away; empty when it can."""
    if chosen is None:
        return "Choose a run first."
    if chosen.pinned:
        return "It is pinned: unpin it first."
    return "It is running: stop it first." if chosen.id == active.id and run_is_active(active.state) else ""


def purge_question(what: str, size_bytes: int) -> Question:
    """Return what to ask before something leaves the bin for good."""
    sentence = f"It is gone for good then; {text.size(size_bytes)} become free."
    return Question(f"Remove {what} for good?", sentence, "Remove")


def stop_question(service: ServiceStatus, run: RunStatus) -> Question | None:
    """Return what to ask before a service is stopped; None when nothing waits for it."""
    if service.kind != "trainer" or not run_is_active(run.state):
        return None
    sentence = "Clients will wait until it is started again; it is not restarted automatically."
    if run.checkpoint_age_s is not None:
        sentence += f" It saves before it ends (last checkpoint {text.ago(run.checkpoint_age_s)})."
    return Question("Stop the trainer?", sentence, "Stop trainer")


@dataclass(frozen=True)
class ClientAction:
    """Something to be done with clients: its command, what its button says before, meanwhile and after."""

    name: str
    title: str
    doing: str
    done: str
    icon: str
    tip: str

    @property
    def command(self) -> str:
        """Its command."""
        return f"clients.{self.name}"


STEERING_ACTIONS = (
    ClientAction(
        "pause",
        "Pause",
        "Pausing …",
        "Paused",
        "pause",
        "It waits, with its environments open, until it is resumed",
    ),
    ClientAction("resume", "Resume", "Resuming …", "Resumed", "resume", "Continue playing"),
    ClientAction(
        "drain",
        "Finish episode, then stop",
        "Asking …",
        "Asked",
        "state-draining",
        "It plays its episodes to the end, sends them, and leaves",
    ),
    ClientAction(
        "stop", "Stop", "Stopping …", "Asked", "stop", "It leaves at once; its unfinished episodes are lost"
    ),
)
"""What is done with clients every day, in the order of its buttons."""
_ADMITTING = (
    ClientAction(
        "release",
        "Release",
        "Releasing …",
        "Released",
        "state-quarantined",
        "Let it in again after it was cut off for what it sent",
    ),
    ClientAction(
        "purge",
        "Purge…",
        "Purging …",
        "Purged",
        "trash",
        "Stop the run from learning from what it has sent so far",
    ),
    ClientAction(
        "revoke",
        "Revoke…",
        "Revoking …",
        "Revoked",
        "state-refused",
        "Revoke its invitation: it is cut off at once",
    ),
)
_FORGET = ClientAction(
    "forget",
    "Forget",
    "Forgetting …",
    "Forgotten",
    "trash",
    "Take it off the list, with whatever it left unread",
)
CLIENT_ACTIONS = (*STEERING_ACTIONS, _FORGET)
"""What can be done on the overview, in the order of its toolbar."""
RARE_ACTIONS = (*_ADMITTING, _FORGET)
"""What stands in a menu on the page of the clients."""


def possible(action: str, clients: Sequence[ClientStatus], status: Status) -> tuple[list[ClientStatus], str]:
    """Return with which of the chosen clients something can be done; where with none, also why."""
    if not clients:
        return [], "Choose a client first."
    reasons = [why_not_possible(action, client, status) for client in clients]
    able = [client for client, reason in zip(clients, reasons, strict=True) if not reason]
    return able, "" if able else reasons[0]


def why_not_possible(action: str, client: ClientStatus, status: Status) -> str:
    """Return why something can't be done with a client, or would change nothing; empty when it can."""
    if refusal := client.allowed.get(f"clients.{action}", ""):
        return refusal
    # What the runner would accept may be of no use, as the same wish a second time.
    name = client.name
    if action in ("release", "purge", "forget"):
        return ""
    if action == "revoke":
        return f"{name} is revoked already." if client.state == "revoked" else ""
    gone = client.state in _GONE
    if action == "resume":
        if gone and client.local:
            # One of the server's own that was stopped is started again, once its process has ended.
            ending = any(service.name == client.id and service.state in _UP for service in status.services)
            refusal = status.allowed.get("service.local_clients", "")
            return refusal or (f"{name} is about to end." if ending else "")
        if client.wish != "run":
            return ""
        if is_paused_there(client.state, client.wish):
            return f"{name} is paused on its own computer: it can only be resumed there."
        return f"{name} is not paused."
    if gone:
        return f"{name} is {client_look(client.state).word.lower()}: there is nobody to ask."
    wished = {"pause": "pause", "drain": "finish", "stop": "stop"}[action]
    return f"{name} is asked to already." if client.wish == wished else ""


def question_before(action: str, clients: Sequence[ClientStatus]) -> Question | None:
    """Return what is asked before something is done with clients; None when nothing is lost by it."""
    if action not in ("purge", "revoke") or not clients:
        return None
    names = ", ".join(client.name for client in clients)
    if action == "purge":
        sentence = "What has come so far leaves the replay memory for good. What was learned from it stays."
        return Question(f"Purge {names}?", sentence, "Purge")
    sentence = (
        "It is cut off at once, and what it has not sent yet is lost. To let it in again, invite it again."
        if len(clients) == 1
        else "They are cut off at once, and what they have not sent yet is lost. "
        "To let them in again, invite them again."
    )
    return Question(f"Revoke {names}?", sentence, "Revoke")


def why_no_log(client: ClientStatus) -> str:
    """Return why the log of a client can't be shown; empty when it can."""
    told = client.local or client.age_s is not None
    return "" if told else f"{client.name} has reported nothing yet."


def why_no_look(client: ClientStatus) -> str:
    """Return why the game of a client can't be looked at; empty when it can."""
    if client.shown:
        return ""
    allows = "client.shown allows it" if client.local else "its owner allows it by the rules there"
    return f"{client.name} does not show its game: {allows}, for games that render as pictures."


_OF_RETURNS = ("env.kwargs", "env.wrappers")
_OF_LOSSES = ("normalize.reward_clip", "normalize.rewards")  # rewards as they are learned from


def reward_words(differing: Collection[str]) -> str:
    """Return what may be of different scales where runs differ in these settings; empty for nothing."""
    words = []
    for settings, what in ((_OF_RETURNS, "returns"), (_OF_LOSSES, "losses and values")):
        if found := ", ".join(key for key in settings if key in differing):
            words.append(f"The runs differ in {found}: their {what} may be of different scales.")
    return " ".join(words)
