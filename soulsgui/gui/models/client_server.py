"""What the page of client mode says of the server, of a test of it, and of what it needs. Pure."""

from soulsgui.gui import text
from soulsgui.gui.colours import Tone
from soulsgui.gui.i18n import tr
from soulsgui.gui.states import Look
from soulsgui.wire.control import ServerTest, Status
from soulsgui.wire.versions import PROTOCOL_NAME, Lack


def server_words(status: Status) -> tuple[Look, str]:
    """Return how the server is, and where: `this computer, 127.0.0.1:6379, answers in 3 ms`."""
    server = status.server
    address = server.url.partition("://")[2]
    name = server.name or tr("this computer")
    where = tr("{server}, {address}").format(server=name, address=address) if address else name
    if not server.reachable:
        where = tr("{where}, not reached").format(where=where)
        return Look("state-lost", Tone.WARNING, tr("Server")), where
    if server.round_trip_s is not None:
        where = tr("{where}, answers in {time}").format(where=where, time=trip_words(server.round_trip_s))
    return Look("state-good", Tone.GOOD, tr("Server")), where


def trip_words(seconds: float) -> str:
    """Return how long an answer takes, in whole milliseconds: `3 ms`, `under 1 ms`."""
    if seconds < 0.001:
        return tr("under 1 ms")
    return tr("{n} ms").format(n=text.count(round(1000 * seconds)))


def trial_words(found: ServerTest, server: str) -> tuple[str, str, str]:
    """Return what came of a test of the server: level of the message, what, and why with what to do.

    Args:
        found: What came of it.
        server: What the server is called.
    """
    if found.shut_out:
        return (
            "error",
            tr("{server} answers, but does not let this computer in.").format(server=server),
            tr("{error} Was the invitation taken back? Ask its owner for a new one and paste it.").format(
                error=text.sentence(found.error)
            ),
        )
    if not found.address:
        what = tr("{server} is not found.").format(server=server)
        return "warning", what, text.sentence(found.error)
    what = tr("{server} answers at {place} in {time} and lets this computer in.").format(
        server=server, place=found.address, time=trip_words(found.round_trip_s or 0.0)
    )
    if found.lacks:
        return "warning", what, f"{lack_words(found.lacks)} {how_to_update(found.lacks)}"
    if not found.env_id:
        return "success", what, tr("It has not told yet what it trains.")
    return "success", what, tr("It trains {environment}; the versions fit.").format(environment=found.env_id)


def lack_words(lacks: list[Lack]) -> str:
    """Return what a server needs and this computer has, a sentence for each."""
    return " ".join(_lack(lack) for lack in lacks)


def _lack(lack: Lack) -> str:
    if lack.what == PROTOCOL_NAME:
        sentence = tr("It speaks protocol {needs}, this computer {has}.")
    elif lack.has:
        sentence = tr("It needs {what} {needs} or newer, this computer has {has}.")
    else:
        sentence = tr("It needs {what} {needs} or newer, which is missing here.")
    return sentence.format(what=lack.what, needs=lack.needs, has=lack.has)


def how_to_update(lacks: list[Lack]) -> str:
    """Return what to do about it: the older side is updated."""
    if server_is_older(lacks):
        return tr("Ask its owner to update SoulsGUI there; this computer then joins by itself.")
    if lacks and all(lack.what not in ("soulsgui", PROTOCOL_NAME) for lack in lacks):
        return tr("Update it here; it then joins by itself.")
    return tr("Update SoulsGUI on this computer, start it again, and switch on.")


def update_title(lacks: list[Lack]) -> str:
    """Return the state of a computer and a server that don't understand each other."""
    return tr("Update of the server needed") if server_is_older(lacks) else tr("Update needed")


def server_is_older(lacks: list[Lack]) -> bool:
    """Return whether it is the server that has to be updated."""
    spoken = next((lack for lack in lacks if lack.what == PROTOCOL_NAME), None)
    return spoken is not None and len(lacks) == 1 and int(spoken.needs) < int(spoken.has)
