"""What a service's card says. Pure: the seconds since the news came are passed in."""

from dataclasses import dataclass

from soulsgui.gui import text
from soulsgui.gui.colours import Tone
from soulsgui.gui.i18n import tr
from soulsgui.gui.states import Look, phase_word, service_look, service_title
from soulsgui.wire.control import ServiceStatus


@dataclass(frozen=True)
class CardWords:
    """A card's texts.

    Attributes:
        title: The service.
        look: Icon and colour of its state.
        state: Its state in words, with what it is doing or waiting for.
        facts: pid, port, uptime.
        usage: CPU, memory, restarts.
        sentence: How it ended, or when it is tried again; empty when all is well.
        tone: Colour of the sentence.
        tip: What else there is to know of the state; empty for nothing.
    """

    title: str
    look: Look
    state: str
    facts: str
    usage: str
    sentence: str
    tone: Tone
    tip: str = ""


def card_words(status: ServiceStatus, passed_s: float) -> CardWords:
    """Return what to say of a service.

    Args:
        status: As the server told it.
        passed_s: Seconds since then.
    """
    look = service_look(status.state)
    return CardWords(
        title=service_title(status.name, status.kind),
        look=_look_in_phase(look, status),
        state=_state(status, passed_s),
        facts=_facts(status, passed_s),
        usage=_usage(status),
        sentence=_sentence(status),
        tone=look.tone if status.state in ("failed", "backoff") else Tone.MUTED,
        tip=_tip(status),
    )


def _look_in_phase(look: Look, status: ServiceStatus) -> Look:
    """A running node that is paused, frozen or waiting shows that instead of a tick."""
    if status.state != "running":
        return look
    icons = {
        "waiting": Look("state-waiting", Tone.BUSY, look.word),
        "paused": Look("state-paused", Tone.PAUSED, look.word),
        "frozen": Look("state-frozen", Tone.WARNING, look.word),
        "loading": Look("state-busy", Tone.BUSY, look.word),
    }
    return icons.get(status.phase, look)


def _state(status: ServiceStatus, passed_s: float) -> str:
    if status.state == "backoff" and status.restart_in_s is not None:
        return tr("Restarting in {time} ({failures}/{most})").format(
            time=_countdown(status.restart_in_s - passed_s),
            failures=status.failures,
            most=status.max_failures,
        )
    word = service_look(status.state).word
    if status.state not in ("running", "starting"):
        return word
    doing = phase_word(status.phase)
    if not doing:
        return f"{word}: {status.detail}" if status.detail else word
    return f"{doing}: {status.detail}" if status.detail else doing


def _countdown(seconds: float) -> str:
    return tr("{seconds} s").format(seconds=max(0, round(seconds)))


def _facts(status: ServiceStatus, passed_s: float) -> str:
    parts = []
    if status.pid is not None:
        parts.append(tr("pid {number}").format(number=status.pid))
    if status.port is not None:
        parts.append(tr("port {number}").format(number=status.port))
    if status.uptime_s is not None:
        parts.append(text.uptime(status.uptime_s + passed_s))
    return " · ".join(parts)


def _tip(status: ServiceStatus) -> str:
    if status.kind != "trainer" or "%" not in status.detail:
        return ""
    return tr("Part of the time in which the trainer waits for samples, or samples for the trainer")


def _usage(status: ServiceStatus) -> str:
    parts = []
    if status.cpu_percent is not None:
        parts.append(tr("CPU {percent}").format(percent=text.percent(status.cpu_percent)))
    if status.memory_bytes is not None:
        parts.append(text.size(status.memory_bytes))
    if status.restarts:
        parts.append(text.restarts(status.restarts))
    return " · ".join(parts)


def _sentence(status: ServiceStatus) -> str:
    if status.state == "running" and not status.restarts:
        return ""
    if status.state == "failed" and not status.outcome:
        return status.detail or tr("It could not be started.")
    return status.outcome
