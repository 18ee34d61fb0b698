from pathlib import Path

import pytest

from soulsgui.runner.aof import cut_off_damage, loss_at_start
from soulsgui.runner.server_binary import ServerBinary

BINARY = ServerBinary(Path("/nonexistent/valkey-server"), "configured", "valkey", "9.1.2")
DAMAGED = (
    "9952:M 20 Nov 2026 09:33:04.061 # Bad file format reading the append only file {}: make a backup of "
    "your AOF file, then use ./redis-check-aof --fix <filename.manifest>"
)


def test_a_start_without_loss_has_nothing_to_say() -> None:
    assert (
        loss_at_start(["* DB loaded from append only file: 0.000 seconds", "* Ready to accept connections"])
        == ""
    )


def test_a_log_without_damage_repairs_nothing(tmp_path: Path) -> None:
    assert cut_off_damage(BINARY, tmp_path, ["# Warning: Could not create server TCP listening socket"]) == ""
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_base_file_is_left_to_the_user(tmp_path: Path) -> None:
    told = cut_off_damage(BINARY, tmp_path, [DAMAGED.format("appendonly.aof.1.base.rdb")])
    assert "can't be repaired" in told
    assert str(tmp_path) in told


@pytest.mark.parametrize("present", [True, False])
def test_a_repair_that_fails_is_told(tmp_path: Path, present: bool) -> None:
    folder = tmp_path / "appendonlydir"
    folder.mkdir()
    if present:
        (folder / "appendonly.aof.1.incr.aof").write_bytes(b"x")
    told = cut_off_damage(BINARY, tmp_path, [DAMAGED.format("appendonly.aof.1.incr.aof")])
    assert "its repair failed" in told


def test_a_name_in_the_log_never_leads_out_of_the_folder(tmp_path: Path) -> None:
    assert cut_off_damage(BINARY, tmp_path, [DAMAGED.format("../../x.incr.aof")]) == ""
