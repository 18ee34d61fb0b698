"""What a server is told of its clients, as it is typed."""

from pathlib import Path

from soulsgui.cli.declaring import Commands, add, group, json_option

_WHO = "its id or its name, as `soulsgui clients list` shows them"


def add_clients(commands: Commands) -> None:
    """Add what a server is told of its clients."""
    clients = group(commands, "clients", "everyone who plays for this server")
    json_option(add(clients, "list", "remote:clients", "list them"))
    for name, text in (
        ("pause", "let a client wait"),
        ("resume", "let a client go on"),
        ("drain", "let a client finish its episodes and stop"),
        ("stop", "let a client stop at once"),
    ):
        command = add(clients, name, "remote:wish", text)
        command.add_argument("client", metavar="NAME", help=_WHO)
        command.set_defaults(wish=name)
    rename = add(clients, "rename", "remote:rename", "call a client something else on screen")
    rename.add_argument("client", metavar="NAME", help=_WHO)
    rename.add_argument("name", nargs="?", default="", metavar="TEXT", help="the name; default: its id again")
    forgetting = add(clients, "forget", "remote:forget", "take a client that is gone off the list")
    forgetting.add_argument("client", metavar="NAME", help=_WHO)
    log = add(clients, "log", "remote:client_log", "what a client wrote last")
    log.add_argument("client", metavar="NAME", help=_WHO)
    log.add_argument("-n", type=int, default=50, metavar="LINES", help="how many lines; default: 50")
    json_option(log)
    releasing = add(clients, "release", "remote:release", "let a client that was cut off send again")
    releasing.add_argument("client", metavar="NAME", help=_WHO)
    rejects = add(clients, "rejects", "remote:rejects", "the last samples that were refused, and why")
    rejects.add_argument(
        "client", nargs="?", default="", metavar="NAME", help="only those of this client; default: of all"
    )
    json_option(rejects)
    invite = add(
        commands,
        "invite",
        "inviting:invite",
        "let another computer play for this server",
        examples=("invite gamer-01", "invite gamer-01 --reissue --file /media/stick/gamer-01.soulsgui"),
    )
    invite.add_argument("client", metavar="NAME", help="its id, such as gamer-01")
    invite.add_argument(
        "--file", type=Path, metavar="PATH", help="where to write it; default: NAME.soulsgui, here"
    )
    invite.add_argument(
        "--reissue",
        action="store_true",
        help="it was invited before: end that, and invite it anew; default: refuse then",
    )
    json_option(invite)
    revoke = add(commands, "revoke", "inviting:revoke", "take an invitation back and cut its computer off")
    revoke.add_argument("client", metavar="NAME", help=_WHO)
