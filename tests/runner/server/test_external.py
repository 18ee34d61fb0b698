import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis

from soulsgui.config.paths import Folders
from soulsgui.config.sections.server import RedisSettings
from soulsgui.errors import ServiceError, UsageError
from soulsgui.runner.server.external import ExternalServer
from soulsgui.system import free_port
from soulsgui.wire.access import user_of
from tests.runner.children import until, until_now
from tests.runner.running import PROGRAMS, call, new_runner, opened

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a server runs on Linux and macOS")

PASSWORD = "s3cret:@"
_OPTIONS = ("--requirepass", PASSWORD, "--appendonly", "yes")


class External:
    """A server that this program has nothing to do with."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.url = f"redis://:s3cret%3A%40@127.0.0.1:{self.port}"
        self._argv = (PROGRAMS[0], "--port", str(self.port), *_OPTIONS, "--dir", str(folder))
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self._argv, stdout=subprocess.DEVNULL)
        until_now(self.answers)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()

    def call(self, *words: str) -> Any:
        with closing(redis.Redis(port=self.port, password=PASSWORD, decode_responses=True)) as connection:
            return connection.execute_command(*words)

    def answers(self) -> bool:
        try:
            return bool(self.call("PING"))
        except redis.ConnectionError:
            return False


@pytest.fixture
def external(tmp_path: Path) -> Iterator[External]:
    server = External(tmp_path)
    yield server
    server.end()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://127.0.0.1", "redis://"),
        ("redis://", "redis://"),
        ("127.0.0.1:6379", "redis://"),
        ("redis://127.0.0.1:99999", "out of range"),
        ("redis://127.0.0.1/3", "database 0"),
        ("redis://127.0.0.1?db=0", "no options"),
        ("redis://me:x@127.0.0.1", "user `default`"),
    ],
)
def test_an_address_that_can_not_be_used_is_refused_in_words(url: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        ExternalServer.parse(url)


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ((), ""),
        (("CONFIG", "SET", "maxmemory", "1gb"), ""),
        (("CONFIG", "SET", "maxmemory", "100mb"), f"redis.max_memory={100 * 2**20}"),
        (("CONFIG", "SET", "maxmemory", "1gb", "maxmemory-policy", "allkeys-lru"), "discards data"),
        (("CONFIG", "SET", "requirepass", "another"), "does not let us in"),
        (("ACL", "SETUSER", "client.gamer-01", "~other:in:gamer-01"), "another redis.prefix"),
        (("ACL", "SETUSER", "client.gamer-01", "~souls:in:gamer-01"), ""),
        (("ACL", "SETUSER", "default", "-acl"), "refuses a command that is needed"),
        (("SHUTDOWN", "NOSAVE"), "No server answers"),
    ],
)
def test_what_a_server_can_not_do_is_said_at_the_start(
    external: External, before: tuple[str, ...], said: str
) -> None:
    try:
        external.call(*before or ("PING",))
    except redis.ConnectionError:
        external.process.wait()
    server = ExternalServer.parse(external.url)
    if not said:
        server.check(RedisSettings())
        return
    with pytest.raises(ServiceError) as refused:
        server.check(RedisSettings())
    assert said in f"{refused.value.message} {refused.value.remedy}"
    assert PASSWORD not in str(refused.value)


def test_nothing_goes_unencrypted_to_a_public_address() -> None:
    with pytest.raises(ServiceError, match="could be read"):
        ExternalServer.parse("redis://192.88.99.1").check(RedisSettings())


@pytest.mark.processes
@pytest.mark.allow_warnings
async def test_clients_come_in_by_a_server_of_somebody_else_who_keeps_his_users(
    external: External, folders: Folders
) -> None:
    stranger, invited = "somebody", user_of("gamer-01")
    runner = new_runner(folders, {"redis.url": external.url})
    async with opened(runner):
        await call(runner, "clients.invite.create", client="gamer-01")
        assert invited in external.call("ACL", "USERS")
        assert PASSWORD not in " ".join(runner.supervisor.spec_of("redis").argv)
        external.end()
        await until(lambda: not runner.server_state.reachable)
        external.start()
        external.call("ACL", "SETUSER", stranger, "on", "nopass", "~*", "+@all")
        await until(lambda: invited in external.call("ACL", "USERS"))
        await call(runner, "clients.revoke", client="gamer-01")
        assert set(external.call("ACL", "USERS")) == {"default", stranger}
        await call(runner, "clients.invite.reissue", client="gamer-01")
    assert set(external.call("ACL", "USERS")) == {"default", stranger}
