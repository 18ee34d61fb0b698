"""What can be done with services now, what stopping one costs, and local clients in words. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from soulsgui.gui import text
from soulsgui.gui.colours import Tone
from soulsgui.gui.i18n import tr
from soulsgui.gui.models.service_words import card_words
from soulsgui.gui.question import Question
from soulsgui.gui.states import Look, run_is_active, service_look
from soulsgui.wire.control import RunStatus, ServiceStatus

# What is told of several clients is what is told of the one that needs attention most.
_WORST_FIRST = ("failed", "backoff", "starting", "stopping", "stopped", "running")


def forbidden(service: ServiceStatus, run: RunStatus) -> dict[str, str]:
    """Return which buttons of a service's card make no sense now, and why.

    Args:
        service: The service.
        run: The run that goes on, or the last one.
    """
    active = run_is_active(run.state)
    if service.kind == "redis":
        if active:
            return {"stop": tr("Nothing can go on without Redis: stop the run first.")}
        return {}
    if active:
        return {}
    reason = why_no_run()
    return {"start": reason, "stop": reason, "restart": reason}


def why_no_run() -> str:
    """Return why services of a run can't be steered without one."""
    return tr("No run goes on: start or resume one first.")


def stop_question(service: ServiceStatus, run: RunStatus) -> Question | None:
    """Return what to ask before a service is stopped; None when nothing waits for it."""
    if service.kind != "trainer" or not run_is_active(run.state):
        return None
    sentence = tr("Clients will wait until it is started again; it is not restarted by itself.")
    if run.checkpoint_age_s is not None:
        saved = tr("It saves before it ends (last checkpoint {ago}).").format(
            ago=text.ago(run.checkpoint_age_s)
        )
        sentence = f"{sentence} {saved}"
    return Question(tr("Stop the trainer?"), sentence, tr("Stop trainer"))


@dataclass(frozen=True)
class GroupWords:
    """What the card of the local clients says.

    Attributes:
        title: How many there are, and how many of them run.
        look: Icon and colour of the state.
        state: The state in words.
        usage: What all of them use together.
        sentence: What is wrong with the one that needs attention; empty when all is well.
        tone: Colour of the sentence.
        speaker: Name of the client that the sentence is about, or of the first one; empty without any.
    """

    title: str
    look: Look
    state: str
    usage: str
    sentence: str
    tone: Tone
    speaker: str


def group_words(clients: Sequence[ServiceStatus], passed_s: float) -> GroupWords:
    """Return what to say of the clients that run on the server.

    Args:
        clients: Their services.
        passed_s: Seconds since they were told of.
    """
    running = sum(client.state == "running" for client in clients)
    title = tr("Local clients {running}/{all}").format(running=running, all=len(clients))
    if not clients:
        none = tr("None plays on the server's own computer.")
        return GroupWords(title, service_look("stopped"), "", "", none, Tone.MUTED, "")
    worst = min(clients, key=_rank)
    words = card_words(worst, passed_s)
    troubled = worst.state in ("failed", "backoff")
    return GroupWords(
        title=title,
        look=service_look(worst.state),
        state=words.state if troubled else _states(clients, worst),
        usage=_usage(clients),
        sentence=f"{words.title}: {words.sentence}" if troubled and words.sentence else "",
        tone=words.tone,
        speaker=worst.name,
    )


def _rank(client: ServiceStatus) -> int:
    return _WORST_FIRST.index(client.state)


def _states(clients: Sequence[ServiceStatus], worst: ServiceStatus) -> str:
    same = sum(client.state == worst.state for client in clients)
    word = service_look(worst.state).word
    if same == len(clients):
        return word
    return tr("{count} of {all} {state}").format(count=same, all=len(clients), state=word.lower())


def _usage(clients: Sequence[ServiceStatus]) -> str:
    parts = []
    percents = [client.cpu_percent for client in clients if client.cpu_percent is not None]
    sizes = [client.memory_bytes for client in clients if client.memory_bytes is not None]
    if percents:
        parts.append(tr("CPU {percent}").format(percent=text.percent(sum(percents))))
    if sizes:
        parts.append(text.size(sum(sizes)))
    if restarts := sum(client.restarts for client in clients):
        parts.append(text.restarts(restarts))
    return " · ".join(parts)
