"""Which commands changed something: when, from where, and what became of them."""

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from soulsgui.config.schema import all_settings
from soulsgui.errors import printable
from soulsgui.runner.journal import Journal
from soulsgui.wire.control import ApiError, AuditEntry, Params

AUDIT_FILE = "audit.jsonl"  # name of the file in the folder of a runner

_LONGEST_VALUE = 100
_SECRET = "***"


class AuditLog:
    """The audit log of a runner; a command stands in it before it is carried out, whatever becomes of it."""

    def __init__(
        self,
        path: Path,
        on_entry: Callable[[AuditEntry], None],
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._on_entry = on_entry
        self._wall_clock = wall_clock
        self._journal = Journal(path, AuditEntry)
        self.loss = self._journal.loss

    def begin(self, command: str, params: Params, origin: str, peer: str, program: str = "") -> AuditEntry:
        """Note that a command is to be carried out for somebody."""
        number = self._journal.last_number + 1
        entry = AuditEntry(
            number=number,
            time=self._wall_clock(),
            command=command,
            params=params_words(params),
            origin=origin,
            peer=peer,
            program=program,
        )
        return self._note(entry)

    def end(self, entry: AuditEntry, error: ApiError | None = None, outcome: str = "done") -> None:
        """Note what became of it; an error says that itself."""
        told = {"outcome": outcome} if error is None else {"outcome": error.code, "error": error.message}
        seconds = max(self._wall_clock() - entry.time, 0.0)
        self._note(AuditEntry.model_validate(entry.model_dump() | {"seconds": seconds, **told}))

    def since(self, number: int, limit: int) -> list[AuditEntry]:
        """Return the newest entries with greater numbers, oldest first."""
        return self._journal.since(number)[-limit:]

    def _note(self, entry: AuditEntry) -> AuditEntry:
        self._journal.write(entry)
        self._on_entry(entry)
        return entry


def params_words(params: Params) -> str:
    """Return the parameters that were told, as `name=value`; what is declared secret is left out."""
    fields = type(params).model_fields
    told = params.model_dump(mode="json", exclude_unset=True).items()
    return " ".join(f"{name}={_value(value) if fields[name].repr else _SECRET}" for name, value in told)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        known = all_settings()
        secret = {key for key in value if key in known and known[key].secret}
        value = {key: _SECRET if key in secret else one for key, one in value.items()}
    return printable(json.dumps(value, ensure_ascii=False), _LONGEST_VALUE)
