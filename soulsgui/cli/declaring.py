"""How commands are declared, those of the API's table among them, and the parser made from that."""

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from soulsgui.config.errors import nearest
from soulsgui.wire.control.commands import COMMANDS, Command, Params, Typed

Argument = tuple[str, dict[str, Any]]
"""Names of an argument, as `--follow/-f`, and what else argparse is to know of it."""


def option(value: str, text: str, **more: Any) -> dict[str, Any]:
    """Declare an option with a value: a text, empty without one, unless `more` says otherwise."""
    return {"metavar": value, "help": text, **({} if "type" in more else {"default": ""}), **more}


def flag(text: str, **more: Any) -> dict[str, Any]:
    """Declare an option without a value."""
    return {"action": "store_true", "help": text, **more}


def word(shown: str, text: str, default: str | None = None, **more: Any) -> dict[str, Any]:
    """Declare what is told by its place; with a default it may be left out."""
    optional = {} if default is None else {"nargs": "?", "default": default}
    return {"metavar": shown, "help": text, **optional, **more}


_OUTPUT = option("FILE", "file to write; default: its own name, in this folder", type=Path)
_YES = flag("don't ask before the complete bin is emptied; default: ask", dest="without_asking")
EMPTIES = ("runs.purge", "checkpoint.purge")  # commands that without a name remove all there is in a bin
JSON = flag("print one JSON document; default: text", dest="as_json")

_EVERYWHERE = {
    "--config-dir": option(
        "DIR", "folder of your settings; default: the usual one of your system", type=Path
    ),
    "--data-dir": option(
        "DIR", "folder of runs and server state; default: the usual one of your system", type=Path
    ),
    "--set": option(
        "KEY=VALUE",
        "setting that wins over every file; may be repeated; default: none",
        type=str,
        action="append",
        dest="assignments",
    ),
}


@dataclass(frozen=True)
class Declared:
    """A command as it is typed."""

    typed: str  # its words, such as `config show`
    handler: str  # what carries it out: `module:function` below `soulsgui.cli`
    text: str  # what it does, for its help
    arguments: Sequence[Argument] = ()
    examples: Sequence[str] = ()
    hidden: bool = False  # whether only the program itself types it
    more: Mapping[str, Any] = field(default_factory=dict)  # attributes of its `Arguments`


def typed_arguments(name: str) -> Iterator[Argument]:
    """Yield what is typed of a command of the API's table."""
    yield from _arguments(COMMANDS[name])


def of_the_api(begins: Sequence[Argument] = ()) -> Iterator[Declared]:
    """Yield the typed commands of the API's table; those that begin a run take `begins` as well."""
    for command in COMMANDS.values():
        if command.typed:
            beginning = command.name in ("run.start", "run.resume")
            yield Declared(
                command.typed,
                "remote:begin" if beginning else "remote:plain",
                command.help,
                (
                    *_arguments(command),
                    *([("--json", JSON)] if command.as_json else ()),
                    *([("--output", _OUTPUT)] if command.file else ()),
                    *([("--yes", _YES)] if command.name in EMPTIES else ()),
                    *(begins if beginning else ()),
                ),
                command.examples,
                more={"command": command.name},
            )


def _arguments(command: Command) -> Iterator[Argument]:
    for name, typed in typed_params(command.params):
        known = command.params.model_fields[name]
        told: dict[str, Any] = {"help": typed.help or known.description}
        if typed.default:
            told["help"] += f"; default: {typed.default}"
            told["default"] = known.default if typed.implied is None else typed.implied
        if typed.word:
            told |= {"metavar": typed.word, "type": int if known.annotation in (int, int | None) else str}
            told |= {"nargs": "+"} if known.annotation == list[str] else {}
        else:
            told |= {"action": "store_const", "const": typed.given or True}
        if typed.option:
            yield typed.option, {"dest": name, **told}
        else:
            yield name, told | ({"nargs": "?"} if typed.default else {})


def typed_params(params: type[Params]) -> list[tuple[str, Typed]]:
    """Return those parameters of a command that are typed, and how; each word of it once."""
    found = ((name, part) for name, known in params.model_fields.items() for part in known.metadata)
    return [(name, part) for name, part in found if isinstance(part, Typed)]


def common_options() -> argparse.ArgumentParser:
    """Return the options that every command takes."""
    # Without defaults of its own: as a parent it would undo what stood before the command.
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS)
    everywhere = parser.add_argument_group("everywhere")
    for name, told in _EVERYWHERE.items():
        everywhere.add_argument(name, **told)
    return parser


class CommandParser(argparse.ArgumentParser):
    """Says what could have been meant; knows the commands it shows, and their titles in its help."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.shown: list[str] = []
        self.groups: Mapping[str, Sequence[str]] = {}
        self._below: Any = None

    def add(self, declared: Declared) -> None:
        """Add a command below this one."""
        *_, last = declared.typed.split()
        shown: dict[str, Any] = {} if declared.hidden else {"help": declared.text}
        if declared.examples:
            shown["epilog"] = "\n".join(["examples:", *(f"  soulsgui {one}" for one in declared.examples)])
            shown["formatter_class"] = argparse.RawDescriptionHelpFormatter
        parser = self._commands().add_parser(
            last, description=declared.text, allow_abbrev=False, parents=[common_options()], **shown
        )
        parser.set_defaults(handler=f"soulsgui.cli.{declared.handler}", **declared.more)
        for names, told in declared.arguments:
            parser.add_argument(*names.split("/"), **told)
        if not declared.hidden:
            self.shown.append(last)

    def add_family(self, name: str, text: str) -> "CommandParser":
        """Add a command that has commands of its own, and return it."""
        self.shown.append(name)
        made: CommandParser = self._commands().add_parser(
            name, help=text, description=text, allow_abbrev=False
        )
        return made

    def _commands(self) -> Any:
        if self._below is None:
            self._below = self.add_subparsers(metavar="COMMAND", required=True, parser_class=CommandParser)
        return self._below

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """As argparse; but what a command does not take is told by the command, not by the program."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown and not self.shown:
            near = nearest(unknown[0], (option for one in self._actions for option in one.option_strings))
            hint = f"Did you mean {near}?" if near else f"See: {self.prog} --help"
            super().error(f"{' '.join(unknown)} is not an argument of this command. {hint}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        """End the process with code 2, saying what is wrong."""
        if message == "the following arguments are required: COMMAND":
            self.print_help(sys.stderr)
            self.exit(2)
        if wrong := re.match(r"argument COMMAND: invalid choice: '(.*?)' \(", message):
            near = nearest(wrong[1], self.shown)
            hint = f"Did you mean {near}?" if near else f"There are: {', '.join(self.shown)}."
            message = f"“{wrong[1]}” is not a command. {hint}"
        found = (re.fullmatch(pattern, message, re.DOTALL) for pattern in _MISTAKES)
        super().error(next((one.expand(_MISTAKES[one.re.pattern]) for one in found if one), message))

    def format_help(self) -> str:
        """Return the help, its commands in groups where there are any."""
        if not self.groups:
            return super().format_help()
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        listed = {one.dest: one for one in self._commands()._get_subactions()}
        for title, names in self.groups.items():
            formatter.start_section(title)
            formatter.add_arguments([listed[name] for name in names])
            formatter.end_section()
        formatter.start_section("options")
        formatter.add_arguments(self._optionals._group_actions)
        formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()


_MISTAKES = {
    r"argument (.+): invalid int value: (.*)": r"\1 should be a whole number, not \2.",
    r"argument (.+): invalid float value: (.*)": r"\1 should be a number, not \2.",
    r"argument (.+): invalid choice: (.*) \(choose from (.*)\)": r"\1 should be one of \3, not \2.",
    r"argument (.+): expected (?:one|at least one) argument": r"\1 needs a value after it.",
    r"unrecognized arguments: (.*)": r"\1 is not an argument of this command.",
    r"the following arguments are required: (.*)": r"\1 is missing.",
}
"""What argparse finds wrong, and what is said of it."""
