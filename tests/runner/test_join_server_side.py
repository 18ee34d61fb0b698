"""What of client mode a server's runner refuses."""

import pytest

from soulsgui.runner.app import Runner
from soulsgui.runner.refusal import Refused
from tests.runner.running import call


async def test_a_server_pauses_at_once_or_not_at_all(runner: Runner) -> None:
    with pytest.raises(Refused, match="at once"):
        await call(runner, "clients.pause", client="somebody", after_episode=True)


async def test_a_server_says_that_it_is_one(runner: Runner) -> None:
    assert (await call(runner, "server.hello"))["role"] == "server"
