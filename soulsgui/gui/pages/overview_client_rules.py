"""What can be done with clients now, and why not. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from soulsgui.gui.i18n import plural, tr
from soulsgui.gui.question import Question
from soulsgui.gui.states import client_look, run_is_active
from soulsgui.wire.control import ClientStatus, RunStatus, Status
from soulsgui.wire.situation import is_paused_there

_GONE = ("left", "revoked", "refused")
_PLAYING = ("online", "late")
_NAMED = 2
_FORGETTABLE = ("lost", *_GONE)
_UP = ("starting", "running", "stopping", "backoff")


@dataclass(frozen=True)
class ClientAction:
    """Something to be done with clients.

    Attributes:
        name: Tells it from the others.
        command: Its command.
        title: What its button says.
        doing: What it says meanwhile.
        done: What it says afterwards.
        icon: Name of its icon.
        tip: What it means.
    """

    name: str
    command: str
    title: str
    doing: str
    done: str
    icon: str
    tip: str


def client_actions() -> tuple[ClientAction, ...]:
    """Return every action, in the order of the toolbar."""
    return (
        ClientAction(
            "pause",
            "clients.pause",
            tr("Pause"),
            tr("Pausing …"),
            tr("Paused"),
            "pause",
            tr("It waits, with its environments open, until it is resumed"),
        ),
        ClientAction(
            "resume", "clients.resume", tr("Resume"), tr("Resuming …"), tr("Resumed"), "resume", tr("Play on")
        ),
        ClientAction(
            "drain",
            "clients.drain",
            tr("Finish episode, then stop"),
            tr("Asking …"),
            tr("Asked"),
            "state-draining",
            tr("It plays its episodes to the end, sends them, and leaves"),
        ),
        ClientAction(
            "stop",
            "clients.stop",
            tr("Stop"),
            tr("Stopping …"),
            tr("Asked"),
            "stop",
            tr("It leaves at once; its unfinished episodes are lost"),
        ),
        ClientAction(
            "forget",
            "clients.forget",
            tr("Forget"),
            tr("Forgetting …"),
            tr("Forgotten"),
            "trash",
            tr("Take it off the list, with whatever it left unread"),
        ),
    )


def roster_actions() -> tuple[ClientAction, ...]:
    """Return what else can be done where there is room for all of it: on the page of the clients."""
    release = ClientAction(
        "release",
        "clients.release",
        tr("Release"),
        tr("Releasing …"),
        tr("Released"),
        "state-quarantined",
        tr("Let it in again after it was cut off for what it sent"),
    )
    revoke = ClientAction(
        "revoke",
        "clients.revoke",
        tr("Revoke…"),
        tr("Revoking …"),
        tr("Revoked"),
        "state-refused",
        tr("Take its invitation back: it is cut off at once"),
    )
    *before, forget = client_actions()
    return (*before, release, revoke, forget)


def question_before(action: str, clients: Sequence[ClientStatus]) -> Question | None:
    """Return what is asked before something is done with clients; None when nothing is lost by it.

    Args:
        action: Name of the action.
        clients: With whom it is done.
    """
    if action != "revoke" or not clients:
        return None
    names = ", ".join(client.name for client in clients)
    sentence = plural(
        len(clients),
        "It is cut off at once, and what it has not sent yet is lost. To let it in again, invite it anew.",
        "They are cut off at once, and what they have not sent yet is lost. To let them in again, invite "
        "them anew.",
    )
    return Question(tr("Revoke {clients}?").format(clients=names), sentence, tr("Revoke"))


def why_no_log(client: ClientStatus) -> str:
    """Return why the log of a client can't be shown; empty when it can."""
    if client.local or client.age_s is not None:
        return ""
    return tr("{client} has told nothing here yet.").format(client=client.name)


def round_words(run: RunStatus, clients: Sequence[ClientStatus]) -> str:
    """Return who is missing from the rounds of a run because it is paused; empty when nobody is.

    Args:
        run: The run.
        clients: Everyone on the roster.
    """
    paused = [client.name for client in clients if client.state == "paused"]
    playing = sum(client.state in _PLAYING for client in clients)
    if run.algorithm != "ppo" or run.state != "running" or not paused or not playing:
        return ""
    shown = ", ".join(paused[:_NAMED])
    if len(paused) > _NAMED:
        shown = tr("{names} and {n} more").format(names=shown, n=len(paused) - _NAMED)
    return tr("rounds of {n} of {all} clients ({names} paused)").format(
        n=playing, all=playing + len(paused), names=shown
    )


def why_not_possible(action: str, client: ClientStatus, status: Status) -> str:
    """Return why something can't be done with a client; empty when it can.

    Args:
        action: Name of the action.
        client: The client.
        status: The run that goes on, and the services.
    """
    gone = client.state in _GONE
    word = client_look(client.state).word.lower()
    if action == "revoke":
        return _why_not_revoked(client)
    if action == "release":
        if client.state == "quarantined":
            return ""
        return tr("{client} is {state}: it was not cut off.").format(client=client.name, state=word)
    if action == "forget":
        if client.invited is not None and client.state != "revoked":
            return tr("{client} is invited: it could come back at any time. Revoke it first.").format(
                client=client.name
            )
        if client.state in _FORGETTABLE:
            return ""
        return tr("{client} is {state}: it would come back at once. Stop it first.").format(
            client=client.name, state=word
        )
    if action == "resume":
        if gone and client.local:
            return _why_not_started(client, status)
        if client.wish != "run":
            return ""
        if is_paused_there(client.state, client.wish):
            return tr("{client} is paused on its own computer: there it is told to go on.").format(
                client=client.name
            )
        return tr("{client} is not paused.").format(client=client.name)
    if gone:
        return tr("{client} is {state}: there is nobody to ask.").format(client=client.name, state=word)
    wished = {"pause": "pause", "drain": "finish", "stop": "stop"}[action]
    if client.wish == wished:
        return tr("{client} is asked to already.").format(client=client.name)
    return ""


def _why_not_revoked(client: ClientStatus) -> str:
    if client.state == "revoked":
        return tr("{client} is revoked already.").format(client=client.name)
    if client.local:
        return tr("{client} is one of this server's own: nobody invited it.").format(client=client.name)
    if client.invited is None:
        return tr("{client} came without an invitation.").format(client=client.name)
    return ""


def _why_not_started(client: ClientStatus, status: Status) -> str:
    """One of the server's own that was stopped is started again, once its process has ended."""
    if not run_is_active(status.run.state):
        return tr("No run goes on: start or resume one first.")
    ending = any(service.name == client.id and service.state in _UP for service in status.services)
    return tr("{client} is about to end.").format(client=client.name) if ending else ""


def possible(action: str, clients: Sequence[ClientStatus], status: Status) -> tuple[list[ClientStatus], str]:
    """Return with which of the chosen clients something can be done.

    Args:
        action: Name of the action.
        clients: The chosen ones.
        status: The run that goes on, and the services.

    Returns:
        Those it can be done with, and why with none of them; that is empty when there is one.
    """
    if not clients:
        return [], tr("Choose a client first.")
    reasons = [why_not_possible(action, client, status) for client in clients]
    able = [client for client, reason in zip(clients, reasons, strict=True) if not reason]
    return able, "" if able else reasons[0]
