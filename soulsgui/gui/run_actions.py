"""Which of the toolbar's commands make sense now, and why not. Pure."""

from dataclasses import dataclass

from soulsgui.gui.connection_state import Connection, ConnectionState, why_not
from soulsgui.gui.i18n import tr
from soulsgui.gui.states import run_is_active
from soulsgui.wire.control import RunStatus, RunSummary
from soulsgui.wire.messages.server_config import algorithm_name


@dataclass(frozen=True)
class Permission:
    """Whether a command makes sense now.

    Attributes:
        allowed: Whether it does.
        why: The reason when it does not, else what it will do.
    """

    allowed: bool
    why: str


def run_title(run: RunStatus | RunSummary) -> str:
    """Return how a run is called on screen."""
    return run.name or run.id


def algorithm_title(run: RunStatus | RunSummary) -> str:
    """Return how what a run learns with is called on screen, such as QR-DQN; empty while there is no run."""
    return algorithm_name(run.algorithm, run.agent).replace("_", "-").upper()


def may_start(connection: Connection) -> Permission:
    """Tell whether a new run can be begun; an active one is asked about in the dialog."""
    if refusal := _refusal(connection):
        return Permission(False, refusal)
    return Permission(True, tr("Choose a preset or your settings, and begin a run"))


def may_resume(connection: Connection, run: RunStatus, newest: RunSummary | None) -> Permission:
    """Tell whether the last run can go on.

    Args:
        connection: How the window stands with the runner.
        run: The active run, or the last one.
        newest: The newest run of the library; None when there is none, or it is not known.
    """
    if refusal := _refusal(connection):
        return Permission(False, refusal)
    if run_is_active(run.state):
        return Permission(False, tr("“{run}” goes on already.").format(run=run_title(run)))
    if newest is None:
        return Permission(False, tr("There is no run yet."))
    if not newest.resumable:
        reason = tr("“{run}” has no checkpoint to go on from. Start a new run.")
        return Permission(False, reason.format(run=run_title(newest)))
    if newest.reached in ("mean_return", "env_steps"):
        reason = tr("“{run}” has reached its goal and would end again at once. Runs goes on with it without.")
        return Permission(False, reason.format(run=run_title(newest)))
    return Permission(True, tr("Go on with “{run}” from its newest checkpoint").format(run=run_title(newest)))


def may_pause(connection: Connection, run: RunStatus) -> Permission:
    """Tell whether there is a run that can rest, or a paused one that can go on."""
    if refusal := _refusal(connection, redis_needed=False):
        return Permission(False, refusal)
    if not run_is_active(run.state):
        return Permission(False, tr("No run goes on."))
    if run.state == "saving":
        return Permission(False, tr("The run is being saved and ended already."))
    if run.wished_pause:
        return Permission(True, tr("Let the run go on where it is"))
    return Permission(True, tr("Clients are granted nothing and nothing is learned; everything is kept"))


def may_stop(connection: Connection, run: RunStatus) -> Permission:
    """Tell whether there is a run to stop."""
    if refusal := _refusal(connection, redis_needed=False):
        return Permission(False, refusal)
    if not run_is_active(run.state):
        return Permission(False, tr("No run goes on."))
    if run.state == "saving":
        return Permission(False, tr("The run is being saved and ended already."))
    return Permission(True, tr("Save and end the run; Redis and remote clients stay"))


def may_save(connection: Connection, run: RunStatus) -> Permission:
    """Tell whether a checkpoint can be saved now."""
    if refusal := _refusal(connection):
        return Permission(False, refusal)
    if not run_is_active(run.state):
        return Permission(False, tr("No run goes on: there is nothing to save."))
    if run.state == "starting":
        return Permission(False, tr("The run is starting: there is nothing to save yet."))
    if run.state == "saving":
        return Permission(False, tr("The run is being saved and ended already."))
    return Permission(True, tr("Save a checkpoint now (Ctrl+Shift+S)"))


def _refusal(connection: Connection, redis_needed: bool = True) -> str:
    if redis_needed and connection.state is ConnectionState.REDIS_DOWN:
        return tr("Redis is down.")
    return why_not(connection)
