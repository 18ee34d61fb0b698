"""How commands are declared, those of the API's table among them, and the options that several take."""

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from soulsgui.config.errors import nearest
from soulsgui.wire.control.commands import COMMANDS, Command, Params, Typed

WHICH_RUN = "id of the run, or how it begins; default: latest"
_NO_COMMAND = "the following arguments are required: COMMAND"
_WRONG_COMMAND = re.compile(r"argument COMMAND: invalid choice: '(.*?)' \(")
_KIND_WORDS = {"int": "a whole number", "float": "a number"}


Commands = Any
"""The object argparse makes subcommands with; it has no public name."""


class CommandParser(argparse.ArgumentParser):
    """Says what could have been meant; knows the commands it shows, and their titles in its help."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.shown: list[str] = []
        self.groups: Mapping[str, Sequence[str]] = {}

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """As argparse; but what a command does not take is told by the command, not by the program."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown and not self.shown:
            near = nearest(unknown[0], (option for one in self._actions for option in one.option_strings))
            hint = f"Did you mean {near}?" if near else f"What there is: {self.prog} --help"
            super().error(f"{' '.join(unknown)} is nothing that it takes. {hint}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        """End the process with code 2, saying what is wrong."""
        if message == _NO_COMMAND:
            self.print_help(sys.stderr)
            self.exit(2)
        wrong = _WRONG_COMMAND.match(message)
        if wrong is not None:
            near = nearest(wrong[1], self.shown)
            hint = f"Did you mean {near}?" if near else f"There are: {', '.join(self.shown)}."
            message = f"{wrong[1]!r} is no command. {hint}"
        super().error(_own_words(message))

    def format_help(self) -> str:
        """Return the help, its commands in groups where there are any."""
        if not self.groups:
            return super().format_help()
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        below = [one for one in self._actions if isinstance(one, argparse._SubParsersAction)]
        listed = {one.dest: one for action in below for one in action._get_subactions()}
        for title, names in self.groups.items():
            formatter.start_section(title)
            formatter.add_arguments([listed[name] for name in names])
            formatter.end_section()
        formatter.start_section("options")
        formatter.add_arguments(self._optionals._group_actions)
        formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()


def _own_words(message: str) -> str:
    """Return what argparse finds wrong as a sentence that says what to type instead."""
    if found := re.fullmatch(r"argument (.+): invalid (int|float) value: (.*)", message, re.DOTALL):
        return f"{found[1]} should be {_KIND_WORDS[found[2]]}, not {found[3]}."
    if found := re.fullmatch(r"argument (.+): invalid choice: (.*) \(choose from (.*)\)", message, re.DOTALL):
        return f"{found[1]} should be one of {found[3]}, not {found[2]}."
    if found := re.fullmatch(r"argument (.+): expected (?:one|at least one) argument", message):
        return f"{found[1]} needs a value behind it."
    if found := re.fullmatch(r"unrecognized arguments: (.*)", message, re.DOTALL):
        return f"{found[1]} is nothing that it takes."
    if found := re.fullmatch(r"the following arguments are required: (.*)", message):
        return f"{found[1]} is missing."
    return message


def common_options() -> argparse.ArgumentParser:
    """Return the options that every command takes."""
    # Without defaults of its own: as a parent it would undo what stood before the command.
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS)
    everywhere = parser.add_argument_group("everywhere")
    everywhere.add_argument(
        "--config-dir",
        type=Path,
        metavar="DIR",
        help="folder of your settings; default: your system's place for them",
    )
    everywhere.add_argument(
        "--data-dir",
        type=Path,
        metavar="DIR",
        help="folder of runs and server state; default: your system's place for them",
    )
    everywhere.add_argument(
        "--set",
        action="append",
        dest="assignments",
        metavar="KEY=VALUE",
        help="a setting that wins over every file; may be repeated; default: none",
    )
    return parser


def add(
    commands: Commands, name: str, handler: str, text: str, hidden: bool = False, examples: Sequence[str] = ()
) -> argparse.ArgumentParser:
    """Add a command that `module:function` below `soulsgui.cli` carries out, with examples of its use."""
    shown: dict[str, Any] = {} if hidden else {"help": text}
    if examples:
        shown["epilog"] = "\n".join(["examples:", *(f"  soulsgui {example}" for example in examples)])
        shown["formatter_class"] = argparse.RawDescriptionHelpFormatter
    parser: argparse.ArgumentParser = commands.add_parser(
        name, description=text, allow_abbrev=False, parents=[common_options()], **shown
    )
    parser.set_defaults(handler=f"soulsgui.cli.{handler}")
    if not hidden:
        commands.shown.append(name)
    return parser


def group(commands: Commands, name: str, text: str) -> Commands:
    """Add a command that has commands of its own; return where those are added."""
    parser = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
    commands.shown.append(name)
    return commands_of(parser)


def commands_of(parser: CommandParser) -> Commands:
    """Return where the commands of a parser are added."""
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=CommandParser)
    # One list for both: whoever adds a command also tells the parser what it may name.
    commands.shown = parser.shown  # type: ignore[attr-defined]
    return commands


def typed_params(params: type[Params]) -> dict[str, Typed]:
    """Return those parameters of a command that are typed, and how."""
    found = ((name, part) for name, field in params.model_fields.items() for part in field.metadata)
    return {name: part for name, part in found if isinstance(part, Typed)}


def add_from_table(commands: Commands, names: str) -> dict[str, argparse.ArgumentParser]:
    """Add the commands of the API's table that are typed as `names ...`, or so alone; return them by name."""
    found = {}
    for command in COMMANDS.values():
        before, _, word = command.typed.rpartition(" ")
        if word and names in (before, command.typed):
            found[command.name] = _add_api_command(commands, word, command)
    return found


def _add_api_command(commands: Commands, word: str, command: Command) -> argparse.ArgumentParser:
    parser = add(commands, word, "remote:plain", command.help, examples=command.examples)
    parser.set_defaults(command=command.name)
    for name, typed in typed_params(command.params).items():
        field = command.params.model_fields[name]
        told: dict[str, Any] = {"help": typed.help or field.description}
        if typed.default:
            told["help"] += f"; default: {typed.default}"
            told["default"] = field.default if typed.implied is None else typed.implied
        if typed.word:
            told |= {"metavar": typed.word, "type": int if field.annotation is int else str}
        else:
            told |= {"action": "store_const", "const": typed.given or True}
        if typed.option:
            parser.add_argument(typed.option, dest=name, **told)
        else:
            parser.add_argument(name, **told | ({"nargs": "?"} if typed.default else {}))
    if command.as_json:
        json_option(parser)
    return parser


def json_option(parser: argparse.ArgumentParser) -> None:
    """Let a command answer in JSON."""
    parser.add_argument(
        "--json",
        action="store_true",
        dest="as_json",
        help="one JSON document on standard output; default: words",
    )


def preset_option(parser: argparse.ArgumentParser) -> None:
    """Let a command take a preset."""
    parser.add_argument(
        "--preset", default="", metavar="NAME", help="a preset below your own settings; default: none"
    )


def run_name_option(parser: argparse.ArgumentParser) -> None:
    """Let a command name the new run."""
    parser.add_argument(
        "--name", default="", metavar="TEXT", help="name of the new run; default: date and time alone"
    )


def local_clients_option(parser: argparse.ArgumentParser) -> None:
    """Let a command say how many clients play here."""
    parser.add_argument(
        "--local-clients", type=int, metavar="N", help="clients on this machine; default: clients.local"
    )


def server_file_option(parser: argparse.ArgumentParser) -> None:
    """Let a command name the file that holds the server's address."""
    parser.add_argument(
        "--server-file",
        type=Path,
        metavar="FILE",
        help="the file that tells where the server is; default: that of the runner of --data-dir",
    )


def invitation_argument(parser: argparse.ArgumentParser, default: str, more: str = "") -> None:
    """Let a command take an invitation; the caller says what happens without one."""
    parser.add_argument(
        "invitation",
        nargs="?",
        default="",
        metavar="INVITATION",
        help=f"link (soulsgui://join/...) or .soulsgui file of a server's owner{more}; default: {default}",
    )
