"""Invitations: handed out by the owner of a server, taken up on a game PC."""

import contextlib
import os
import sys
from pathlib import Path

from soulsgui.cli.output import check_target, folders_of, say, say_json
from soulsgui.cli.parser import Arguments
from soulsgui.cli.remote import runner_of
from soulsgui.errors import SoulsGuiError, UsageError
from soulsgui.process import child_env, own_command
from soulsgui.runner.join.servers import SavedInvitations
from soulsgui.system import become, write_private
from soulsgui.wire.invitation import (
    SUFFIX,
    Invitation,
    invitation_file_name,
    is_link,
    place_words,
    read_invitation,
)

_ELSEWHERE = "Move that file away, or choose another place: --file PATH"


def invite(arguments: Arguments) -> int:
    """`invite`: let another computer in, once."""
    client = arguments.client
    path = (arguments.file or Path(invitation_file_name(client))).absolute()
    earlier = _earlier(path, client)
    runner = runner_of(arguments)
    if earlier is not None and earlier.server_id != runner.control.server_id:
        raise UsageError(
            f"{path} invites {client} to another server, {earlier.server_name} ({earlier.places}).",
            _ELSEWHERE,
        )
    command = "clients.invite.reissue" if arguments.reissue else "clients.invite.create"
    made = runner.command(command, {"client": client})
    try:
        write_private(path, made["file_text"].encode())
    except OSError as error:
        raise SoulsGuiError(
            f"{client} is invited, but {path} can't be written: {error.strerror or error}.",
            f"Write it elsewhere: soulsgui invite {client} --reissue --file PATH{SUFFIX}",
        ) from error
    if earlier is not None:
        say(f"{path} held an earlier invitation of {client} to this server: it was replaced.", sys.stderr)
    host, port = made["addresses"][0]
    warning = ""
    if not made["lan"]:
        warning = only_here(client, runner.command("clients.invite.list")["lan"])
    if arguments.as_json:
        told = {name: made[name] for name in ("username", "secret", "link")}
        say_json({"name": client, "host": host, "port": port, **told, "file": str(path)})
        if warning:
            say(warning, sys.stderr)
        return 0
    places = ", ".join(place_words(host, port) for host, port in made["addresses"])
    beyond = (
        "These are addresses of this computer. For a computer outside your network, let the router forward "
        f"port {port} to this computer. The other computer needs the router's address: soulsgui join "
        f"{path.name} --address HOST, or Change address… in its window.\n"
    )
    say(
        f"{client} is invited to {places}.\n{beyond if made['lan'] else ''}"
        f"Give the file or the link to that computer and nobody else: whoever has it plays as {client}.\n\n"
        f"  {path}\n\n  {made['link']}\n\n"
        f"There: soulsgui join {path.name}\n"
        f"or, if SoulsGUI is not set up there yet, in its unpacked folder: "
        f"python3 packaging/bootstrap.py client {path.name}" + (f"\n\n{warning}" if warning else "")
    )
    return 0


def only_here(client: str, listens: bool) -> str:
    """Say why only this computer can use an invitation, and what remains to be done so that others can.

    The server may listen on the private addresses of this computer, of which there are none now.
    """
    steps = [f"  soulsgui invite {client} --reissue"]
    if listens:
        why = "this computer has no private address now. Once it is in a network:"
    else:
        why = "the server listens on loopback only. For other computers:"
        steps.insert(0, "  soulsgui server set --lan on")
    return "\n".join([f"Only this computer can use it: {why}", *steps])


def take_up(arguments: Arguments) -> Invitation:
    """Read the invitation of a command line and keep it where the next start finds it.

    A link holds the secret, and everybody on this machine sees a command line: this process goes on under
    another one, which names the file.
    """
    word: str = arguments.invitation
    invitation = read_invitation(word)
    if place := getattr(arguments, "address", ""):  # of `join` alone
        invitation = invitation.found_at(place)
    check_name(arguments, invitation)
    saved = SavedInvitations(folders_of(arguments))
    path = saved.path_of(invitation.server_id)
    is_file = os.path.isfile(word)  # noqa: PTH113 - a Path raises where a link is too long for a name
    kept = None
    with contextlib.suppress(UsageError):
        kept = Invitation.load(path)
    if kept != invitation:  # a confined client that starts over can't write it again
        try:
            saved.keep(invitation)
        except OSError as error:
            raise UsageError(
                f"The invitation can't be kept in {path}: {error.strerror or error}.",
                "Choose another folder: --config-dir DIR",
            ) from error
    if is_link(word) or not is_file:
        go_on_with_file(arguments.words, word, path)
    return invitation


def check_name(arguments: Arguments, invitation: Invitation) -> None:
    """Make sure that `--name` names nobody but the invited."""
    if arguments.name not in ("", invitation.client):
        raise UsageError(
            f"This invitation is for {invitation.client}, not for {arguments.name}.",
            f"Omit --name, or have {arguments.name} invited.",
        )


def go_on_with_file(words: list[str], link: str, path: Path) -> None:
    """Replace this process by the same command with a file path instead of a link."""
    told = [str(path) if word == link else word for word in words]
    sys.stdout.flush()
    sys.stderr.flush()
    become([*own_command(told[0]), *told[1:]], os.environ | child_env())


def _earlier(path: Path, client: str) -> Invitation | None:
    """Return the invitation that stands where another one of the same client is to be written."""
    check_target(path, "--file")
    if not path.exists():
        return None
    with contextlib.suppress(UsageError):
        earlier = Invitation.load(path)
        if earlier.client == client:
            return earlier
    raise UsageError(f"{path} exists and is not an earlier invitation of {client}.", _ELSEWHERE)
