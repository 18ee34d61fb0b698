"""What the dialog of an invitation says: where the server is reachable from, and what a name means. Pure."""

import re

from soulsgui.gui import text
from soulsgui.gui.colours import Tone
from soulsgui.gui.i18n import tr
from soulsgui.gui.states import Look
from soulsgui.wire.control import InvitationInfo, InvitationList
from soulsgui.wire.invitation import place_words
from soulsgui.wire.keys import is_client_name

_USUAL = "gamer"


def next_name(invitations: list[InvitationInfo]) -> str:
    """Return a name that nobody was invited by: `gamer-01`, `gamer-02` …"""
    taken = {one.client for one in invitations}
    number = 1
    while f"{_USUAL}-{number:02}" in taken:
        number += 1
    return f"{_USUAL}-{number:02}"


def known_as(name: str, invitations: list[InvitationInfo]) -> InvitationInfo | None:
    """Return the invitation that a name has already and that is still good; None without one."""
    found = (one for one in invitations if one.client == name and one.revoked is None)
    return next(found, None)


def wrong_name(name: str) -> str:
    """Return what is wrong with a name; empty when a client can be called so."""
    if not name:
        return tr("Give the computer a name.")
    if re.fullmatch(r"client-\d+", name):
        return tr("{name} is a name of this server's own clients.").format(name=name)
    if not is_client_name(name):
        return tr(
            "A name has letters, digits, “.”, “_” and “-”, at most 64, and begins with a letter or digit."
        )
    return ""


def reissue_words(known: InvitationInfo, now: float) -> str:
    """Return what inviting somebody again means."""
    return tr(
        "{name} was invited on {time}. That secret was told once and can't be told again: a new invitation "
        "ends the older one at once."
    ).format(name=known.client, time=text.clock(known.invited, now))


def reach_look(listed: InvitationList) -> Look:
    """Return from where this server is reachable."""
    places = ", ".join(place_words(host, port) for host, port in listed.addresses)
    if listed.lan:
        word = tr("Reachable from the private network, at {places}").format(places=places)
        return Look("state-good", Tone.GOOD, word)
    word = tr("Reachable from this computer alone, at {places}").format(places=places)
    return Look("state-warning", Tone.WARNING, word)


def lan_words(saved: bool, run_goes_on: bool) -> str:
    """Return what opening the server to the network means.

    Args:
        saved: Whether it is written down already, and waits for the server's next start.
        run_goes_on: Whether a run goes on.
    """
    if not saved:
        return tr(
            "Redis then listens on this computer's private addresses, too; whoever is not invited is still "
            "not let in. Only with redis.tls is encrypted what is sent: without it, allow a network that you "
            "trust."
        )
    if run_goes_on:
        return tr(
            "Saved. It takes effect when the server starts anew: the run is saved and ended first; Resume "
            "goes on with it."
        )
    return tr("Saved. It takes effect when the server starts anew; no run goes on.")
