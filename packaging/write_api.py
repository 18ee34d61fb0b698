"""Writes docs/api.md from the table of commands: what each takes, answers and does.

python packaging/write_api.py
"""

import json
import re
import sys
from pathlib import Path
from typing import Any, get_type_hints

from pydantic import BaseModel
from pydantic.fields import FieldInfo

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from soulsgui.wire import control  # noqa: E402
from soulsgui.wire.control import COMMANDS, Command, ErrorCode  # noqa: E402
from soulsgui.wire.control.commands import Typed  # noqa: E402

_HEAD = """\
# The control API

`packaging/write_api.py` makes this page from the table of commands (`soulsgui/wire/control/commands.py`).

A runner is reached over HTTP and WebSocket on loopback, at the port and with the token that
`soulsgui control --json` shows (`Authorization: Bearer TOKEN`). `soulsgui call GROUP.COMMAND JSON` sends any
of the commands.

- `GET /v1/status` answers `Status`.
- `POST /v1/commands/GROUP.COMMAND` takes the parameters as a JSON object and answers
  `{"ok": true, "result": ...}` or `{"ok": false, "error": {"code", "message", "remedy"}}`.
- `GET /v1/jobs/ID` answers `Job`: commands that take long are shown to every window as jobs. Some are
  answered at once with their job: they continue, and can be cancelled (`job.cancel`).
- `GET /v1/files/ID` sends a file that a job made; `POST /v1/files` stores one, for commands that need the
  id of a file, and answers `StoredFile`.
- `WS /v1/feed?cursor=N` sends what came after cursor N if it is still stored, otherwise a snapshot first.
  A client that sends a `Watch` there also gets pictures of those jobs (`checkpoint.evaluate` with `frames`):
  at most 30 a second, and only the newest ones if it reads them more slowly.

"""
_ROLES = {"server": "server", "client": "client mode"}
_NO_FIELDS = "Result: `{}`."


def page() -> str:
    """Return the page."""
    codes = ", ".join(f"`{code}`" for code in ErrorCode)
    parts = [_HEAD, f"Error codes: {codes}. More fields may be added; ignore unknown ones.\n"]
    group, told = "", dict[str, type[BaseModel]]()
    for command in COMMANDS.values():
        if (prefix := command.name.partition(".")[0]) != group:
            group = prefix
            parts.append(f"\n## {group}\n")
        parts.append(_command(command, told))
    parts.append("\n## What is answered\n")
    for kind in (control.Status, control.Job, control.FeedMessage, control.Watch):
        _note(kind, told)
    parts += [_kind(name, kind) for name, kind in sorted(told.items())]
    return "".join(parts)


def _command(command: Command, told: dict[str, type[BaseModel]]) -> str:
    words = f"{command.help[0].upper()}{command.help[1:]}. {command.more}".rstrip()
    facts = [" and ".join(_ROLES[role] for role in command.roles)]
    if command.job:
        facts.append("answered at once with its job")
    if command.long:
        facts.append(
            "takes long: a job" if len(command.long) == len(command.roles) else "a job in client mode"
        )
    if command.reads:
        facts.append("changes nothing")
    if command.repeated:
        facts.append("not in the audit log")
    if command.typed:
        facts.append(f"`soulsgui {command.typed}`")
    lines = [f"\n### {command.name}\n\n{words} ({'; '.join(facts)})\n"]
    if command.params.model_fields:
        lines.append("\n" + _fields(command.params, {}))
        _note(command.params, told, itself=False)
    if command.result is None:
        return "".join([*lines, f"\n{_NO_FIELDS}\n"])
    _note(command.result, told)
    whose = "Result of the job" if command.job else "Result"
    return "".join(
        [*lines, f"\n{whose}: [`{command.result.__name__}`](#{command.result.__name__.lower()}).\n"]
    )


def _kind(name: str, kind: type[BaseModel]) -> str:
    words = " ".join((kind.__doc__ or "").partition("Attributes:")[0].split())
    told: dict[str, str] = {}
    for one in reversed(kind.__mro__):
        more = (one.__doc__ or "").partition("Attributes:")[2]
        told |= dict(re.findall(r"^ {8}(\w+): ((?:.|\n(?! {8}\w+: ))+)", more, re.MULTILINE))
    return f"\n### {name}\n\n{words}\n\n{_fields(kind, told)}"


def _fields(kind: type[BaseModel], told: dict[str, str]) -> str:
    types = {name: _type(hint) for name, hint in get_type_hints(kind).items()}  # without the bounds
    rows = "".join(
        f"| `{field.alias or name}` | {types[name]} | {_default(field)} | {_about(name, field, told)} |\n"
        for name, field in kind.model_fields.items()
    )
    return f"| field | type | default | |\n|---|---|---|---|\n{rows}" if rows else f"{_NO_FIELDS}\n"


def _about(name: str, field: FieldInfo, told: dict[str, str]) -> str:
    return " ".join((field.description or told.get(name, "")).split()).replace("|", "\\|")


def _type(kind: Any) -> str:
    words = getattr(kind, "__name__", "") if isinstance(kind, type) else ""
    if not words or "[" in str(kind):
        words = re.sub(r"typing\.|[\w.]+\.(?=\w)", "", str(kind))
        words = re.sub(r"Optional\[(\w+)\]", r"\1 | None", words)
    return f"`{words}`".replace("|", "\\|")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return ""
    value: Any = field.get_default(call_default_factory=True, validated_data={})
    return "" if isinstance(value, BaseModel) else f"`{json.dumps(value)}`"


def _note(kind: Any, told: dict[str, type[BaseModel]], itself: bool = True) -> None:
    """Note a message and every message that its fields hold."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        if itself:
            if kind.__name__ in told:
                return
            told[kind.__name__] = kind
        for field in kind.model_fields.values():
            _note(field.annotation, told)
    for part in getattr(kind, "__args__", ()):
        if not isinstance(part, Typed):
            _note(part, told)


def main() -> None:
    """Write the page."""
    (ROOT / "docs" / "api.md").write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
