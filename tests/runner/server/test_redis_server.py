import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import pytest_asyncio
import redis

from soulsgui.config.paths import Folders
from soulsgui.config.sections.server import RedisSettings
from soulsgui.errors import ServiceError
from soulsgui.runner.server.binary import loss_at_start
from soulsgui.runner.server.health import Pinger
from soulsgui.runner.server.redis_server import (
    RedisServer,
    ensure_server,
    read_or_make_password,
    refuse_a_second,
    unix_socket,
)
from soulsgui.runner.services.service import ServiceSpec
from soulsgui.runner.services.supervisor import Supervisor
from soulsgui.system import is_private
from soulsgui.wire.access import user_line
from tests.faults.waiting import LIMIT_S
from tests.runner.children import QUICK, Events, kill, text_of, until, until_now
from tests.runner.running import can_ping, connected, ping
from tests.servers import has_written

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a server runs on Linux and macOS")

STREAM = "souls:in:a"
STANDS_STILL_S = 3.0
"""How long a tick may stand still where that is the matter: a busy machine is not silent for so long."""


@pytest_asyncio.fixture
async def supervisor(folders: Folders, events: Events) -> AsyncIterator[Supervisor]:
    supervisor = Supervisor(folders.server, lambda: None, events, QUICK)
    yield supervisor
    await supervisor.close()


@pytest.fixture
def server(folders: Folders, settings: RedisSettings) -> RedisServer:
    return ensure_server(folders, settings)


class Running:
    """The server under supervision; each start goes on with the same files."""

    def __init__(self, server: RedisServer, folders: Folders, supervisor: Supervisor) -> None:
        self.server, self.supervisor = server, supervisor
        self.pinger = Pinger(server.address)
        self.log = folders.server / "logs" / "redis.log"
        more = {"live_limit_s": LIMIT_S, "repair": server.repair}
        usual = ("redis", "redis", server.argv, 0, self.log, self.pinger.health)
        self.spec = ServiceSpec(*usual, remark=loss_at_start, **more)

    async def start(self) -> None:
        await self.supervisor.start(self.spec)
        await self.ready()

    async def ready(self) -> None:
        assert await self.supervisor.wait_ready("redis", LIMIT_S), text_of(self.log)

    async def fill_and_stop(self) -> Path:
        """Return the file that holds what was put in."""
        await self.start()
        with connected(self.server.address) as client:
            for number in range(100):
                client.xadd(STREAM, {"c": b"x" * 50}, id=f"1-{number + 1}")
        await self.supervisor.stop("redis")
        (file,) = (self.server.data_dir / "appendonlydir").glob("*.incr.aof")
        return file

    @property
    def length(self) -> int:
        with connected(self.server.address) as client:
            return client.xlen(STREAM)


@pytest.fixture
def running(server: RedisServer, folders: Folders, supervisor: Supervisor) -> Iterator[Running]:
    made = Running(server, folders, supervisor)
    yield made
    made.pinger.close()


async def test_the_server_starts_with_its_configuration_and_lets_nobody_in_without_the_password(
    running: Running, server: RedisServer, supervisor: Supervisor, events: Events
) -> None:
    await running.start()
    wanted = {
        "appendonly": "yes",
        "appendfsync": "everysec",
        "aof-load-truncated": "yes",
        "save": "",
        "maxmemory": str(512 * 2**20),
        "maxmemory-policy": "noeviction",
        "maxmemory-clients": "0",
        "proto-max-bulk-len": str(128 * 2**20),
        "client-query-buffer-limit": str(160 * 2**20),
        "port": "0",
        "dir": str(server.data_dir.resolve()),
        "requirepass": server.address.password,
    }
    with connected(server.address) as client:
        found = {key: client.config_get(key)[key] for key in wanted}
    assert found == wanted
    assert len(server.address.password) >= 43
    assert server.address.password not in repr(server)
    assert stat.S_IMODE(server.data_dir.stat().st_mode) == 0o700
    assert stat.S_IMODE(server.config_path.stat().st_mode) == 0o600
    assert not can_ping(replace(server.address, password=""))
    health = ping(replace(server.address, password="wrong"))
    assert not health.ready
    assert "does not accept our password" in health.error
    await supervisor.close()
    assert events.told == []


async def test_a_killed_server_comes_back_with_its_data_and_a_frozen_one_is_replaced(
    running: Running, supervisor: Supervisor, events: Events
) -> None:
    await running.start()
    with connected(running.server.address) as client:
        client.xadd(STREAM, {"c": b"x"})
        await until(lambda: has_written(client))
        kill(supervisor.pid_of("redis"))
        await until(lambda: supervisor.statuses()[0].restarts == 1 and supervisor.running("redis"))
        assert client.xlen(STREAM) == 1
    assert [event[1] for event in events.told] == ["redis ended unexpectedly", "redis runs again"]
    await supervisor.stop("redis")
    running.spec = replace(running.spec, live_limit_s=STANDS_STILL_S)
    await running.start()
    pid, before = supervisor.pid_of("redis"), supervisor.statuses()[0].restarts
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    await until(lambda: supervisor.statuses()[0].restarts > before and supervisor.running("redis"))
    assert f"no sign of life for {STANDS_STILL_S:.0f} s" in events.told[2][2]


async def test_an_incomplete_end_of_its_file_is_cut_off_and_told(running: Running, events: Events) -> None:
    file = await running.fill_and_stop()
    os.truncate(file, file.stat().st_size - 5)
    await running.start()
    assert running.length == 99
    (event,) = [event for event in events.told if "incomplete" in event[1]]
    assert event[0] == "warning"
    assert file.name in event[1]


async def test_a_file_damaged_in_the_middle_is_repaired_and_told(running: Running, events: Events) -> None:
    file = await running.fill_and_stop()
    damaged = bytearray(file.read_bytes())
    damaged[len(damaged) // 2 : len(damaged) // 2 + 20] = b"#" * 20
    file.write_bytes(damaged)
    await running.start()
    assert 0 < running.length < 99
    (event,) = [event for event in events.told if "was damaged" in event[1]]
    assert "were cut off" in event[1]
    assert (running.server.data_dir / "damaged" / file.name).read_bytes() == damaged


def refused(client: redis.Redis) -> bool:
    try:
        client.set("key", b"x" * 1000)
    except redis.ResponseError as error:
        return str(error).startswith("MISCONF")
    return False


def test_a_full_disk_is_not_a_dead_server(server: RedisServer, tmp_path: Path) -> None:
    # The server may write files of some KB only, and is told so by an error instead of a signal.
    limited = ["sh", "-c", "trap '' XFSZ; ulimit -f 16; exec \"$@\"", "sh", *server.argv]
    with (tmp_path / "server.log").open("wb") as log:
        process = subprocess.Popen(limited, stdout=log, stderr=subprocess.STDOUT)
    try:
        until_now(lambda: ping(server.address).ready)
        with connected(server.address) as client:
            until_now(lambda: refused(client))
            health = ping(server.address)
            assert health.ready
            assert health.tick is not None
            assert health.detail.startswith("disk full")
            assert client.get("key") == b"x" * 1000
    finally:
        process.kill()
        process.wait()


def test_a_server_that_hangs_gets_no_second_one_on_its_files(server: RedisServer, folders: Folders) -> None:
    refuse_a_second(folders)
    with socket.socket(socket.AF_UNIX) as hung:
        hung.bind(server.address.socket)
        refuse_a_second(folders)  # its file alone is what a killed one leaves
        hung.listen()
        with pytest.raises(ServiceError, match="there already"):
            refuse_a_second(folders)
    refuse_a_second(folders)


async def test_a_crowded_server_is_not_a_dead_one_and_is_adopted_by_whoever_comes(
    server: RedisServer, folders: Folders, supervisor: Supervisor
) -> None:
    running = Running(server, folders, supervisor)
    running.spec = replace(running.spec, live_limit_s=STANDS_STILL_S)
    with ExitStack() as closing:
        closing.callback(running.pinger.close)
        await running.start()
        client = closing.enter_context(connected(server.address))
        client.config_set("maxclients", 12)
        crowd = [closing.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(20)]
        for one in crowd:
            one.connect(server.address.socket)
        await until(lambda: ping(server.address).crowded)
        health = ping(server.address)
        assert (health.ready, health.tick is not None) == (False, True)
        assert health.detail.startswith("it has reached its limit of connections")
        with pytest.raises(ServiceError, match="there already"):
            refuse_a_second(folders)
        pid = supervisor.pid_of("redis")
        asked = client.info("commandstats")["cmdstat_ping"]["calls"]
        # Longer than its tick may stand still: who watches it is in already.
        await until(lambda: client.info("commandstats")["cmdstat_ping"]["calls"] >= asked + 16)
        assert supervisor.pid_of("redis") == pid

        # Another runner comes, whose connection finds no room.
        after = Supervisor(folders.server, lambda: None, Events(), QUICK)
        another = closing.enter_context(contextlib.closing(Pinger(server.address)))
        await until(lambda: another.health().crowded)
        assert await after.adopt(replace(running.spec, health=another.health, start_limit_s=STANDS_STILL_S))
        await asyncio.sleep(STANDS_STILL_S + 1)
        assert after.pid_of("redis") == pid, "it is not taken for one that does not start"
        for one in crowd:
            one.close()
        assert await after.wait_ready("redis", LIMIT_S)
        await after.close()


async def test_a_folder_like_a_pattern_keeps_its_password(tmp_path: Path, settings: RedisSettings) -> None:
    folders = Folders(tmp_path / 'my [soul] "x" * \\ ?' / "config", tmp_path / "d [1]" / "data")
    supervisor = Supervisor(folders.server, lambda: None, Events(), QUICK)
    running = Running(ensure_server(folders, settings), folders, supervisor)
    try:
        await running.start()
        assert not can_ping(replace(running.server.address, password=""))
    finally:
        await supervisor.close()
        running.pinger.close()


def test_a_password_file_holds_one_line_that_nobody_else_can_read(tmp_path: Path) -> None:
    path = tmp_path / "redis.secret"
    path.touch(0o600)
    for text in ("requirepass s3cret", "requirepass s3cret\n", "\nrequirepass  s3cret \r\n"):
        path.write_bytes(text.encode())
        assert read_or_make_password(path) == "s3cret"
    for mode in (0o644, 0o640, 0o606):
        path.chmod(mode)
        with pytest.raises(ServiceError, match="can be read by others") as caught:
            read_or_make_password(path)
        assert caught.value.remedy == f"chmod 600 '{path}'"
        assert "s3cret" not in str(caught.value)
    path.chmod(0o600)
    for text in ("", "s3cret", "requirepass", "requirepass a b", 'requirepass "a"', "requirepass a\nport 1"):
        path.write_text(text)
        with pytest.raises(ServiceError, match="should hold the one line `requirepass <password>`"):
            read_or_make_password(path)


def test_an_unchosen_port_moves_unless_invitations_name_it(folders: Folders, settings: RedisSettings) -> None:
    port = ensure_server(folders, settings).address.port
    users = [user_line("a", settings.prefix, "0" * 64)]
    with socket.create_server(("127.0.0.1", port)):
        named = rf"Port {port} .which invitations name. is taken"
        with pytest.raises(ServiceError, match=named) as caught:
            ensure_server(folders, settings, users)
        assert "issued again" in caught.value.remedy
        moved = ensure_server(folders, settings).address.port
        assert moved != port
        assert ensure_server(folders, settings).address.port == moved
    assert ensure_server(folders, settings, users).address.port == moved, "it does not move back"


def test_a_chosen_port_that_is_taken_is_told_with_its_holder_and_another_is_offered(folders: Folders) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ServiceError, match=f"Port {port} .* is taken by .*{os.getpid()}") as caught:
            ensure_server(folders, RedisSettings(port=port))
    offered = int(caught.value.remedy.partition("redis.port to ")[2].partition(",")[0])
    assert offered != port
    server = ensure_server(folders, RedisSettings(port=offered))
    assert server.address.port == offered


def test_a_port_is_free_everywhere(
    folders: Folders, settings: RedisSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = ensure_server(folders, settings).address.port
    monkeypatch.setattr(
        "soulsgui.runner.server.redis_server.private_addresses", lambda public: ("::1", "203.0.113.9")
    )
    with socket.create_server(("::1", port), family=socket.AF_INET6):
        assert ensure_server(folders, settings).address.port == port
        lan = settings.model_copy(update={"lan": True})
        moved = ensure_server(folders, lan)
        assert moved.address.port != port
    assert ensure_server(folders, lan).address == moved.address


def test_a_damaged_memory_of_the_port_is_no_hindrance(folders: Folders) -> None:
    folders.server.mkdir(parents=True)
    for text in ("", "[]", '{"port": "a"}', '{"port": 99999999}', '{"port": 0}', '{"port": true}'):
        (folders.server / "port.json").write_text(text)
        assert ensure_server(folders, RedisSettings()).address.port > 1


def test_a_server_for_the_whole_network_is_refused(folders: Folders) -> None:
    with pytest.raises(ServiceError, match=r"may not listen on 0\.0\.0\.0"):
        ensure_server(folders, RedisSettings(host="0.0.0.0"))


def test_it_listens_on_a_socket_of_this_user_alone(tmp_path: Path) -> None:
    """A folder that is too deep for the path of a socket has it in a short one that is as private."""
    for folder in (tmp_path, tmp_path / ("a" * 120)):
        server = ensure_server(Folders(folder / "config", folder / "data"), RedisSettings())
        process = subprocess.Popen(server.argv, stdout=subprocess.DEVNULL)
        try:
            until_now(lambda server=server: ping(server.address).ready)
            where = Path(server.address.socket)
            assert stat.S_IMODE(where.stat().st_mode) == 0o700
            assert is_private(where.parent)
            assert psutil.Process(process.pid).net_connections("inet") == []
        finally:
            process.terminate()
            process.wait()
    kept = where.parent.rename(tmp_path / "kept")
    where.parent.symlink_to(kept)  # whoever may write there could lead it elsewhere later
    with pytest.raises(ServiceError, match="is not private"):
        unix_socket(tmp_path / ("a" * 120) / "data" / "server")
    where.parent.unlink()
    kept.rename(where.parent)
    where.parent.chmod(0o755)
    with pytest.raises(ServiceError, match="is not private"):
        unix_socket(tmp_path / ("a" * 120) / "data" / "server")
    shutil.rmtree(where.parent)


_ANOTHER = """
import json, os, socket, sys
os.setuid(65534)
opened = []
for name in json.loads(sys.argv[1]):
    try:
        open(name, "rb").close()
    except PermissionError:
        continue
    except OSError:
        with socket.socket(socket.AF_UNIX) as tried:
            if tried.connect_ex(name):
                continue
    opened.append(name)
print(json.dumps(opened))
"""


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can be another user")
def test_another_user_of_this_computer_opens_neither_socket_nor_secrets() -> None:
    with tempfile.TemporaryDirectory() as named:  # where others may look, as in a home folder that is open
        folder = Path(named)
        folder.chmod(0o755)
        seen = folder / "seen"
        seen.touch(0o644)
        folders = Folders(folder / "config", folder / "data")
        server = ensure_server(folders, RedisSettings())
        process = subprocess.Popen(server.argv, stdout=subprocess.DEVNULL)
        try:
            until_now(lambda: ping(server.address).ready)
            kept = [path for path in (*folders.server.rglob("*"), folders.redis_secret) if not path.is_dir()]
            assert Path(server.address.socket) in kept
            names = json.dumps([str(path) for path in (*kept, seen)])
            words = [shutil.which("python3") or sys.executable, "-I", "-c", _ANOTHER, names]
            done = subprocess.run(words, capture_output=True, text=True, check=True)
            assert json.loads(done.stdout) == [str(seen)]
        finally:
            process.terminate()
            process.wait()
