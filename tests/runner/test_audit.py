import stat
import sys
from pathlib import Path

import pytest

from soulsgui.runner import journal
from soulsgui.runner.audit import AUDIT_FILE, AuditLog, params_words
from soulsgui.runner.journal import read_journal
from soulsgui.wire.control import (
    COMMANDS,
    ApiError,
    AuditEntry,
    ClientParams,
    ConfigSaveParams,
    Empty,
    ErrorCode,
    JoinParams,
    ShutdownParams,
)


@pytest.fixture
def told() -> list[AuditEntry]:
    return []


@pytest.fixture
def audit(tmp_path: Path, told: list[AuditEntry]) -> AuditLog:
    clock = iter(range(100, 200, 5))
    return AuditLog(tmp_path / AUDIT_FILE, told.append, lambda: float(next(clock)))


def test_a_command_stands_in_it_from_its_beginning_and_then_with_its_outcome(
    tmp_path: Path, audit: AuditLog, told: list[AuditEntry]
) -> None:
    first = audit.begin(
        "clients.stop", ClientParams(client="a"), "SoulsGUI window", "127.0.0.1:5", "python (7)"
    )
    assert (first.words(), first.params, first.time) == ("not finished", 'client="a"', 100.0)
    audit.end(first)
    second = audit.begin("run.pause", Empty(), "curl/8", "127.0.0.1:6")
    audit.end(second, ApiError(code=ErrorCode.NOT_NOW, message="No run is active."))
    audit.begin("server.shutdown", ShutdownParams(), "", "127.0.0.1:7")
    assert [(one.number, one.words()) for one in told] == [
        (1, "not finished"), (1, "done"), (2, "not finished"), (2, "No run is active."), (3, "not finished"),
    ]  # fmt: skip
    kept = read_journal(tmp_path / AUDIT_FILE, AuditEntry)
    assert kept == audit.since(0, 500) == [told[1], told[3], told[4]]
    assert (kept[0].program, kept[0].seconds, kept[1].outcome) == ("python (7)", 5.0, "not_now")
    assert [one.number for one in audit.since(1, 500)] == [2, 3]
    assert [one.number for one in audit.since(0, 1)] == [3]
    again = AuditLog(tmp_path / AUDIT_FILE, told.append)
    assert again.begin("run.stop", Empty(), "", "").number == 4


def test_one_that_ends_after_newer_ones_have_pushed_it_out_turns_no_number_back(
    tmp_path: Path, told: list[AuditEntry], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "KEPT", 10)
    audit = AuditLog(tmp_path / AUDIT_FILE, told.append)
    long = audit.begin("runs.export", Empty(), "", "")
    for _ in range(12):
        audit.end(audit.begin("run.pause", Empty(), "", ""))
    audit.end(long)
    assert [one.number for one in audit.since(0, 500)] == list(range(4, 14))
    assert audit.begin("run.stop", Empty(), "", "").number == 14
    again = AuditLog(tmp_path / AUDIT_FILE, told.append)
    assert [one.number for one in again.since(0, 500)] == list(range(5, 15))


@pytest.mark.skipif(sys.platform == "win32", reason="profiles are private there")
def test_it_is_private_whatever_stood_there(tmp_path: Path, told: list[AuditEntry]) -> None:
    path = tmp_path / AUDIT_FILE
    path.write_text("")
    path.chmod(0o644)
    AuditLog(path, told.append).begin("run.stop", Empty(), "", "")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_secrets_and_long_texts_are_left_out_of_parameters() -> None:
    assert params_words(JoinParams(invitation="soulsgui://join/secret")) == "invitation=***"
    assert params_words(ShutdownParams()) == ""
    text = "alerts:\n  webhook: https://ntfy.sh/secret"
    told = params_words(ConfigSaveParams(text=text, changes={"env.id": 1000 * "x"}, base_hash=None))
    assert told.startswith('text=*** changes={"env.id": "xxx')
    assert told.endswith("x… base_hash=null")
    assert len(told) < 200


def test_who_asks_is_text(audit: AuditLog) -> None:
    entry = audit.begin("run.stop", Empty(), "evil\x1b[2J\u202e\n" + 1000 * "x", "127.0.0.1:5")
    assert entry.origin.isprintable()
    assert len(entry.origin) == 500


def test_commands_that_only_read_are_declared_so() -> None:
    words = ("list", "get", "query", "log", "logs", "events", "audit", "rejects", "hello", "presets")
    words += ("show", "compare", "status", "usage", "verify")
    reads = {name for name, command in COMMANDS.items() if command.reads}
    by_name = {name for name in COMMANDS if name.rpartition(".")[2] in words}
    assert reads - by_name == {"config.check", "servers.look", "servers.test"}
    assert by_name <= reads
    assert [name for name, command in COMMANDS.items() if command.repeated] == ["clients.look"]
