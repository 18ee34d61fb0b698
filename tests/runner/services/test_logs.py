import errno
import io
import logging
import shutil
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

import pytest

from soulsgui.process import ParsedLine, level_of, parse_line
from soulsgui.runner.services import logs
from soulsgui.runner.services.logs import LogFile, LogFollower, OwnLog, log_parts, read_lines, tail
from soulsgui.wire.control import LogLine
from tests.runner.children import until_now
from tests.servers import running_server, server_binary

STAMP = "2026-11-20 10:00:00.123"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "trainer.log"


def write(path: Path, lines: Iterable[str]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)


def numbered(lines: list[LogLine]) -> list[tuple[int, str]]:
    return [(line.number, line.text) for line in lines]


def set_aside(path: Path) -> None:
    assert LogFile(path, max_bytes=0).cut_if_large()


def test_a_large_log_is_set_aside_before_the_next_start_and_read_on_to_its_end(path: Path) -> None:
    write(path, ["x" * 50] * 100)
    follower = LogFollower({"trainer": path}, from_start=True)
    follower.poll()
    with path.open("ab") as file:
        file.write(b"b\ntorn")
    with LogFile(path, max_bytes=1000).open("start of trainer") as file:
        file.write(b"hello\n")
    older, live = log_parts(path)
    assert (older.first, older.last, live.first) == (1, 102, 103)
    assert older.path.stat().st_size >= 5100
    assert [line.split(": ")[-1] for line in tail(path, 9)] == ["start of trainer", "hello"]
    lines = [(101, "b"), (102, "torn"), (103, "runner: start of trainer"), (104, "hello")]
    assert numbered(follower.poll()) == lines


def test_a_small_log_is_continued_and_a_torn_line_does_not_swallow_the_start(tmp_path: Path) -> None:
    path = tmp_path / "run" / "logs" / "trainer.log"
    LogFile(path).open("first start").close()  # its folder is made
    with path.open("ab") as file:
        file.write(b"half a li")
    LogFile(path).open("start of trainer").close()
    assert len(log_parts(path)) == 1
    assert tail(path, 2)[0] == "half a li"
    assert tail(path, 1)[0].endswith("INFO runner: start of trainer")


def test_the_folder_of_a_log_may_go_while_it_is_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "run" / "trainer.log"
    over = threading.Event()

    def come_and_go() -> None:
        while not over.is_set():
            path.parent.mkdir()
            path.parent.rmdir()

    coming = threading.Thread(target=come_and_go)
    coming.start()
    try:
        for _ in range(5_000):
            assert [part.path for part in log_parts(path)] == [path]
    finally:
        over.set()
        coming.join()


def test_only_the_newest_parts_are_kept_and_a_follower_skips_the_numbers_of_others(path: Path) -> None:
    follower = LogFollower({"trainer": path})
    for number in range(1, 7):
        write(path, [f"line {number}"])
        assert LogFile(path, max_bytes=0, keep=2).cut_if_large()
    assert [(part.first, part.last) for part in log_parts(path)] == [(5, 5), (6, 6), (7, None)]

    lines, first = read_lines(path, "trainer", None, 100)
    assert (first, numbered(lines)) == (5, [(5, "line 5"), (6, "line 6")])
    assert numbered(follower.poll()) == numbered(lines)


def test_a_process_goes_on_writing_into_a_log_that_was_cut(path: Path) -> None:
    script = "import sys\nfor line in sys.stdin: print(line.strip(), flush=True)"
    with LogFile(path).open("start") as output:
        child = subprocess.Popen([sys.executable, "-I", "-c", script], stdin=subprocess.PIPE, stdout=output)
    child.stdin.write(b"first\n")
    child.stdin.flush()
    until_now(lambda: "first" in tail(path, 5))
    assert LogFile(path, max_bytes=4).cut_if_large()
    child.stdin.write(b"second\n")
    child.stdin.close()
    assert child.wait() == 0
    assert path.read_bytes() == b"second\n"
    assert numbered(read_lines(path, "trainer", None, 2)[0]) == [(2, "first"), (3, "second")]


def test_a_log_is_not_cut_under_a_windows_process(path: Path) -> None:
    write(path, ["x" * 100])
    assert not LogFile(path, max_bytes=10, platform="win32").cut_if_large()
    assert path.stat().st_size == 101


def test_where_there_is_no_room_to_set_a_log_aside_it_is_whole_and_of_a_flood_nothing_is_kept(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_path: Path, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    write(path, ["a", "b"])
    with pytest.raises(OSError, match="No space"):
        LogFile(path, max_bytes=1).cut_if_large()
    assert tail(path, 9) == ["a", "b"]
    assert len(log_parts(path)) == 1
    write(path, ["x" * 99] * 1000)
    assert LogFile(path, max_bytes=1000, flood_bytes=2000).cut_if_large()
    assert len(log_parts(path)) == 1
    (line,) = tail(path, 9)
    assert line.endswith("0.1 MB of this log were dropped: it grew faster than it can be kept")


def test_of_a_flood_the_end_is_kept_and_the_rest_counted(path: Path) -> None:
    write(path, [f"line {number:04}" for number in range(1, 1001)])  # of 10 bytes each
    follower = LogFollower({"trainer": path}, from_start=True)
    read = follower.poll()[:1]
    write(path, [f"line {number:04}" for number in range(1001, 3001)])
    assert LogFile(path, max_bytes=1000, flood_bytes=2000).cut_if_large()
    older, live = log_parts(path)
    assert older.path.stat().st_size <= 1000
    assert (older.first, older.last, live.first) == (2902, 3000, 3001)
    assert "dropped" in tail(path, 1)[0]
    write(path, ["next"])
    read += follower.poll()
    assert [line.number for line in read] == [1, *range(2902, 3003)]
    assert read[1].text == "line 2902"
    assert (read[-2].level, read[-2].text) == (
        "warning",
        "runner: 0.0 MB of this log were dropped: it grew faster than it can be kept",
    )


def test_a_log_that_outgrows_its_copy_stays_bounded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(path, ["x" * 99] * 15)
    read = logs.read_from

    def read_while_it_grows(source: Path, offset: int, most: int = -1) -> bytes:
        write(path, ["x" * 99] * 20_000)
        return read(source, offset, most)

    monkeypatch.setattr(logs, "read_from", read_while_it_grows)
    assert LogFile(path, max_bytes=1000, flood_bytes=2000).cut_if_large()
    older, live = log_parts(path)
    assert older.path.stat().st_size <= 2000 + 1000
    assert live.first > 20_000, "lines that were lost keep their numbers: a follower may have read them"
    assert "MB of this log were dropped" in path.read_text()


def test_who_falls_far_behind_is_told_so_and_goes_on_with_the_newest(path: Path) -> None:
    follower = LogFollower({"trainer": path})
    write(path, (f"line {number} {'x' * 90}" for number in range(1, 50_001)))
    told, *newest = follower.poll()
    assert told.level == "warning"
    assert "are not shown here" in told.text
    assert newest[-1].number == 50_000
    assert newest[-1].text.startswith("line 50000 ")
    assert [line.number for line in newest] == list(range(newest[0].number, 50_001))
    assert newest[0].text.startswith(f"line {newest[0].number} ")
    assert told.number == newest[0].number - 1
    assert follower.poll() == []


def test_files_of_other_services_are_no_parts(path: Path) -> None:
    for name in ("trainer.log.1-", "trainer.log.a-b", "trainer.log.bak.1-4", "trainer.log2", "other.log.1-4"):
        (path.parent / name).write_text("x\n")
    assert log_parts(path) == [log_parts(path)[-1]]


def test_tail_reads_the_end_of_a_huge_file_only(path: Path) -> None:
    write(path, (f"line {number}" for number in range(200_000)))
    with path.open("r+b") as file:  # its beginning becomes a hole that nobody could read as lines
        file.write(bytes(100_000))
    tracemalloc.start()
    try:
        assert tail(path, 2) == ["line 199998", "line 199999"]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < path.stat().st_size / 4
    assert {len(line) for line in tail(path, 10_000)} == {len("line 199999")}, "no line is cut"


def test_no_file_has_no_lines_and_bytes_that_are_no_text_are_shown(path: Path) -> None:
    assert tail(path, 5) == []
    path.touch()
    assert tail(path, 5) == []
    path.write_bytes(b"ok\n\xff\xfe broken \x80\nno end")
    assert tail(path, 5) == ["ok", "\ufffd\ufffd broken \ufffd", "no end"]


def test_a_page_is_read_backwards_over_all_parts(path: Path) -> None:
    for part in range(3):
        write(path, [f"{part}-{line}" for line in range(10)])
        set_aside(path)
    write(path, ["newest"])
    newest, first = read_lines(path, "trainer", None, 3)
    assert numbered(newest) == [(29, "2-8"), (30, "2-9"), (31, "newest")]
    assert first == 1
    older, _ = read_lines(path, "trainer", before=29, n=10)
    assert [line.number for line in older] == list(range(19, 29))
    assert read_lines(path, "trainer", before=1, n=10)[0] == []


def test_lines_are_taken_apart_and_searched_and_tracebacks_stay_with_their_errors(path: Path) -> None:
    looks_alike = "2026-13-77 99:99:99.999 ERROR x: y"
    write(path, [f"{STAMP} WARNING soulsgui.x: careful", "plain", looks_alike])
    lines, _ = read_lines(path, "trainer", None, 10)
    assert (lines[0].level, lines[0].text, lines[0].service) == ("warning", "soulsgui.x: careful", "trainer")
    assert lines[0].time is not None
    plain = [(line.level, line.time, line.text) for line in lines[1:]]
    assert plain == [("", None, "plain"), ("", None, looks_alike)]
    path = path.with_name("other.log")
    error = [f"{STAMP} ERROR a: it broke", "Traceback:", "ValueError: x"]
    write(path, [f"{STAMP} INFO a: fine", "of info", *error, f"{STAMP} INFO a: fine again"])
    lines, _ = read_lines(path, "trainer", None, 10, level="warning")
    assert [line.text for line in lines] == ["a: it broke", "Traceback:", "ValueError: x"]
    write(path, [f"{'Needle' if number % 100 == 0 else 'hay'} {number}" for number in range(1000)])
    lines, _ = read_lines(path, "trainer", None, 3, filter="nEEdle")
    assert [line.text for line in lines] == ["Needle 700", "Needle 800", "Needle 900"]


def test_a_search_takes_only_lines_apart_that_may_match(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(path, (f"{STAMP} INFO a: hay {number}" for number in range(20_000)))
    write(path, [f"{STAMP} ERROR a: needle"])
    taken: list[str] = []

    def counted(line: str) -> ParsedLine:
        taken.append(line)
        return parse_line(line)

    monkeypatch.setattr(logs, "parse_line", counted)
    for level, words in (("debug", "needle"), ("error", ""), ("error", "needle")):
        assert [line.text for line in read_lines(path, "t", None, 10, level, words)[0]] == ["a: needle"]
    read_lines(path, "t", None, 10)
    assert len(taken) == 3 + 10


def test_a_follower_begins_at_the_end_or_the_start_and_goes_on_with_a_new_run(path: Path) -> None:
    follower = LogFollower({"trainer": path})
    assert follower.poll() == []  # it comes later
    write(path, ["old"])
    assert numbered(follower.poll()) == [(1, "old")]
    follower = LogFollower({"trainer": path})
    set_aside(path)
    assert follower.poll() == []
    write(path, ["new"])
    assert numbered(follower.poll()) == [(2, "new")]
    assert follower.poll() == []
    assert numbered(LogFollower({"trainer": path}, from_start=True).poll()) == [(1, "old"), (2, "new")]
    other = path.parent / "other.log"
    write(path, ["of the old run"])
    follower.follow("trainer", other)
    write(other, ["of the new run"])
    assert numbered(follower.poll()) == [(1, "of the new run")]


def test_a_torn_line_is_given_out_once_it_is_whole(path: Path) -> None:
    follower = LogFollower({"trainer": path})
    path.write_bytes("gru\u00df".encode()[:4])
    assert follower.poll() == []
    with path.open("ab") as file:
        file.write("\u00df".encode()[1:] + b"!\nnext")
    assert numbered(follower.poll()) == [(1, "gru\u00df!")]


def test_no_line_is_lost_or_doubled_when_the_log_is_cut_and_numbers_are_those_of_pages(path: Path) -> None:
    follower, read = LogFollower({"trainer": path}), []
    for number in range(1, 61):
        write(path, [f"line {number}"])
        if number % 7 == 0:
            set_aside(path)
        if number % 5 == 0:
            read += follower.poll()
    assert numbered(read) == [(number, f"line {number}") for number in range(1, 61)]
    page = read_lines(path, "trainer", None, 100)[0]
    assert page == read[-len(page) :]


def test_one_poll_is_bounded_and_a_line_without_end_does_not_fill_the_memory(path: Path) -> None:
    follower = LogFollower({"trainer": path})
    write(path, (f"line {number} {'x' * 90}" for number in range(20_000)))
    first = follower.poll()
    assert 0 < len(first) < 4000
    rest = list(first)
    while more := follower.poll():
        rest += more
    assert [line.number for line in rest] == list(range(1, 20_001))
    with path.open("ab") as file:
        file.write(b"x" * 3_000_000)
    assert [follower.poll() for _ in range(48)] == [[]] * 48
    with path.open("ab") as file:
        file.write(b"\nshort\n")
    long, short = follower.poll()
    assert len(long.text) == 8192
    assert (short.number, short.text) == (20_002, "short")


@pytest.mark.allow_warnings
def test_log_is_written_in_the_form_of_the_services_and_not_twice_where_standard_error_is_that_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = OwnLog(path)
    logging.getLogger("soulsgui.test").error("ärger")
    log.close()
    logging.getLogger("soulsgui.test").error("not any more")
    first, second = path.read_text(encoding="utf-8").splitlines()
    assert "start of runner" in first
    parsed = parse_line(second)
    assert (parsed.level, parsed.text) == ("error", "soulsgui.test: ärger")
    with path.open("a", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        handler = logging.StreamHandler(stream)
        logging.getLogger().addHandler(handler)
        log = OwnLog(path)
        logging.getLogger("soulsgui.test").error("once")
        log.close()
        logging.getLogger().removeHandler(handler)
    assert path.read_text(encoding="utf-8").count("once") == 1


@pytest.mark.allow_warnings
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_full_disk_costs_lines_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(LogFile, "open", lambda *_: io.FileIO("/dev/full", "a"))
    log = OwnLog(tmp_path / "runner.log")
    logging.getLogger("soulsgui.test").error("lost")
    log.close()
    assert "Logging error" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "level", "text"),
    [
        ("123:M 29 Nov 2026 19:00:00.250 * Ready", "info", "Ready"),
        ("123:C 29 Nov 2026 19:00:00.250 # No memory", "warning", "No memory"),
        ("123:X 29 Nov 2026 19:00:00.250 - Closed", "debug", "Closed"),
        ("123:C 29 Nov 2026 19:00:00.250 # Configuration loaded", "info", "Configuration loaded"),
        ("123:M 29 Nov 2026 19:00:00.250 # Redis is now ready to exit", "info", "Redis is now ready to exit"),
    ],
)
def test_lines_of_redis_have_time_and_level(line: str, level: str, text: str) -> None:
    parsed = parse_line(line)
    assert (parsed.level, parsed.text) == (level_of(line), parsed.text) == (level, text)
    assert parsed.time == datetime(2026, 11, 29, 19, 0, 0, 250_000).timestamp()


@pytest.mark.parametrize("binary", sorted({server_binary(), shutil.which("redis-server") or server_binary()}))
def test_start_of_a_server_warns_of_nothing_but_what_is_a_warning_by_its_words(
    tmp_path: Path, binary: str
) -> None:
    with running_server(tmp_path, binary):
        log = (tmp_path / "server.log").read_text()
    start, ready, _ = log.partition("Ready to accept connections")
    assert ready
    warnings = [line for line in start.splitlines() if level_of(line) == "warning"]
    assert [line for line in warnings if "WARNING" not in line] == []


@pytest.mark.parametrize("day", ["31 Xyz 2026", "29 Nov 1026"])
def test_what_only_looks_like_a_line_of_redis_comes_back_as_it_is(day: str) -> None:
    line = f"123:M {day} 19:00:00.250 * Ready"
    assert parse_line(line) == ParsedLine(None, "", line)
