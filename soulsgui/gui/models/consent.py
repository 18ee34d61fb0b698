"""What joining a server means, in words: who asks, what will run here, what is sent, who decides. Pure."""

from dataclasses import dataclass

from soulsgui.gui import text
from soulsgui.gui.colours import Tone
from soulsgui.gui.i18n import plural, tr
from soulsgui.gui.states import Look
from soulsgui.wire.control import OfferedServer
from soulsgui.wire.invitation import Invitation, place_words

_MOST_PLACES = 3


@dataclass(frozen=True)
class ConsentLine:
    """One thing to know before one agrees.

    Attributes:
        name: Identifies it in tests and in code.
        title: What it is about.
        words: What there is to say.
        look: A state beside it; None without one.
    """

    name: str
    title: str
    words: str
    look: Look | None = None


def consent_title(invitation: Invitation) -> str:
    """Return the question itself."""
    return tr("Help {server} train?").format(server=invitation.server_name)


def consent_lines(
    invitation: Invitation, offered: OfferedServer | None, trouble: str = "", plays_for: str = ""
) -> list[ConsentLine]:
    """Return everything there is to know, in the order in which one asks.

    Args:
        invitation: What was opened.
        offered: What its server says; None while it is asked, or can't be.
        trouble: Why it can't be asked, in words.
        plays_for: The other server this computer plays for at present; empty for none.
    """
    lines = [
        ConsentLine("who", tr("Who asks"), _who(invitation), _reached(offered, trouble)),
        ConsentLine("what", tr("What will run here"), _what(offered)),
        ConsentLine("sent", tr("What is sent"), _sent(invitation)),
        ConsentLine("cpu", tr("What it costs"), _cost(offered)),
        ConsentLine("you", tr("Who decides"), _decides()),
    ]
    if plays_for:
        words = tr("This computer plays for {server} at present; that ends. Both stay in the list.").format(
            server=plays_for
        )
        lines.append(ConsentLine("instead", tr("Instead of"), words))
    return lines


def _who(invitation: Invitation) -> str:
    places = [place_words(host, port) for host, port in invitation.addresses]
    shown = ", ".join(places[:_MOST_PLACES])
    if len(places) > _MOST_PLACES:
        more = plural(len(places) - _MOST_PLACES, "{n} more address", "{n} more addresses")
        shown = tr("{places} and {more}").format(places=shown, more=more)
    return tr("{server}, at {places}. It knows this computer as {client}.").format(
        server=invitation.server_name, places=shown, client=invitation.client
    )


def _reached(offered: OfferedServer | None, trouble: str) -> Look:
    if trouble:
        return Look("state-warning", Tone.WARNING, trouble)
    if offered is None:
        return Look("state-busy", Tone.BUSY, tr("Asking it …"))
    if offered.address:
        trip = offered.round_trip_s or 0.0
        words = tr("It answers at {place}, in {n} ms").format(
            place=offered.address, n=text.count(max(round(1000 * trip), 1))
        )
        return Look("state-good", Tone.GOOD, words)
    words = tr("{error} You can agree all the same: it is tried again and again.").format(
        error=text.sentence(offered.error)
    )
    return Look("state-warning", Tone.WARNING, words)


def _what(offered: OfferedServer | None) -> str:
    if offered is None or not offered.env_id:
        return tr(
            "The environment that is trained there, several copies of it side by side, without a picture."
        )
    copies = plural(offered.num_envs, "one copy", "{n} copies side by side")
    words = tr("{environment}, {copies}; later whatever is trained there.").format(
        environment=offered.env_id, copies=copies
    )
    if not offered.restart_hook:
        return words
    hook = tr("When it fails, {hook} is called on this computer before it is made anew.").format(
        hook=offered.restart_hook
    )
    return f"{words} {hook}"


def _sent(invitation: Invitation) -> str:
    way = tr("On its way it is encrypted.") if invitation.pin else tr("On its way it is not encrypted.")
    what = tr(
        "What the environment shows and what was done in it; this computer's name, the versions of what runs "
        "here, and warnings and errors of that. No files, and nothing else of this computer."
    )
    return f"{what} {way}"


def _cost(offered: OfferedServer | None) -> str:
    cores = offered.cores if offered is not None else 0
    if offered is not None and offered.workers:
        # No worker is without an environment.
        workers = min(offered.workers, offered.num_envs or offered.workers)
        beside = plural(workers, "one more for its environments", "{n} more for its environments")
        busy = plural(min(workers, cores), "about one", "up to {n}")
        return tr(
            "One process in the background, and {beside}: while they play, {busy} of this computer's {n} "
            "cores."
        ).format(beside=beside, busy=busy, n=cores)
    if cores > 1:
        return tr(
            "One process in the background: while it plays, about one of this computer's {n} cores."
        ).format(n=cores)
    return tr("One process in the background: while it plays, about one processor core.")


def _decides() -> str:
    return tr(
        "You: pause it at any time, at once or after its episode, and switch it off. The server can only ask "
        "it to wait or to stop. When this window is closed it ends its episode and stops."
    )
