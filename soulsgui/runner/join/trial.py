"""Trying a server out: whether it answers, lets this computer in, and can be played for from here."""

import threading
from typing import Any

import redis

from soulsgui.config.settings_info import received_settings
from soulsgui.errors import ClientRegistrationError
from soulsgui.printable import printable
from soulsgui.runner.join.finder import Finder, Reply, knock
from soulsgui.wire.connection import AWAY, Address, connect
from soulsgui.wire.control import AddressChange, OfferedServer, ServerTest
from soulsgui.wire.invitation import Invitation, place_words
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.server_config import ServerConfig
from soulsgui.wire.versions import Lack, lacks_here, least_versions


def examined(offered: OfferedServer, invitation: Invitation, stop: threading.Event) -> OfferedServer:
    """Ask the server of an invitation what it trains; takes up to a second for each address.

    Args:
        offered: What is known so far.
        invitation: What it was invited with.
        stop: Set when nobody waits for the answer any more.
    """
    finder = Finder(invitation, stop)
    if not finder.look() or finder.address is None:
        return offered.model_copy(update={"error": finder.error})
    address = finder.address
    found: dict[str, Any] = {
        "address": place_words(address.host, address.port),
        "round_trip_s": finder.round_trip_s,
    }
    if (config := _config(address)) is not None:
        try:
            settings = received_settings(config.settings)
        except ClientRegistrationError as error:
            return offered.model_copy(update={"error": error.message})
        found |= {
            "env_id": printable(settings["env.id"]),
            "restart_hook": printable(settings["client.restart_hook"]),
            "num_envs": settings["env.num_envs"],
            "workers": settings["client.workers"],
        }
    return offered.model_copy(update=found)


def tested(invitation: Invitation, stop: threading.Event) -> ServerTest:
    """Try the server of an invitation out; takes up to a second for each address.

    Args:
        invitation: What it was invited with.
        stop: Set when nobody waits for the answer any more.
    """
    finder = Finder(invitation, stop)
    if finder.look() and finder.address is not None:
        return _well(finder.address, finder.round_trip_s)
    return ServerTest(shut_out=finder.shut_out, error=finder.error)


def tested_here(address: Address | None) -> ServerTest:
    """Try out the server that runs on this computer; takes at most two seconds.

    Args:
        address: Where it is; None while there is none.
    """
    if address is None:
        return ServerTest(error="No server runs on this computer.")
    answer = knock(address)
    if answer.reply is Reply.LET_IN:
        return _well(address, answer.round_trip_s)
    where = place_words(address.host, address.port)
    if answer.reply is Reply.SHUT_OUT:
        return ServerTest(shut_out=True, error=f"The server at {where} does not let this computer in.")
    return ServerTest(error=f"No answer from {where} ({answer.why}).")


def examined_place(invitation: Invitation, host: str, port: int) -> AddressChange:
    """Ask whether the server of an invitation is at an address; takes about a second.

    Who lets us in there is the server that invited: nobody else knows the secret.

    Args:
        invitation: What it was invited with.
        host: Name or address.
        port: TCP port.
    """
    answer = knock(invitation.address(host, port))
    where, name = place_words(host, port), invitation.server_name
    if answer.reply is Reply.LET_IN:
        return AddressChange(taken=True)
    if answer.reply is Reply.ANOTHER:
        return AddressChange(taken=False, final=True, why=f"At {where} {answer.why}.")
    if answer.reply is Reply.SHUT_OUT:
        why = (
            f"A server answers at {where}, but does not know this computer: it is another one than {name}, "
            "or the invitation was taken back."
        )
        return AddressChange(taken=False, why=why)
    return AddressChange(taken=False, why=f"No answer from {where} ({answer.why}).")


def _well(address: Address, round_trip_s: float | None) -> ServerTest:
    found = ServerTest(address=place_words(address.host, address.port), round_trip_s=round_trip_s)
    config = _config(address)
    if config is None:
        return found
    environment = config.settings.get("env.id")
    change = {
        "lacks": _lacks(config),
        "env_id": printable(environment) if isinstance(environment, str) else "",
    }
    return found.model_copy(update=change)


def lacks_of(address: Address) -> list[Lack] | None:
    """Ask a server what it needs and this computer has not; takes about a second.

    Returns:
        None while it does not tell.
    """
    config = _config(address)
    return None if config is None else _lacks(config)


def _lacks(config: ServerConfig) -> list[Lack]:
    return lacks_here(config.protocol_min, config.protocol_max, least_versions(config.settings))


def _config(address: Address) -> ServerConfig | None:
    """Return what a server tells its clients of its run; None while it has none."""
    connection = connect(address)
    try:
        text: Any = connection.get(Keys(address.prefix).config)
    except (*AWAY, redis.RedisError):
        text = None
    finally:
        connection.close()
    return ServerConfig.read(text)
