"""The owner's pause: it ends when it should, outlives every process, and the server can't end it."""

import time
from pathlib import Path

import pytest

from soulsgui.config.paths import Folders
from soulsgui.runner.join.app import ClientRunner
from soulsgui.runner.join.player import KeptPause
from soulsgui.wire.messages.session import Wish
from tests.runner.joining import NAME, client, comes_to_be, wish
from tests.runner.running import call, opened, until

pytestmark = pytest.mark.usefixtures("fake_client")

NOW = 1_790_000_000.0


class _Clock:
    now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("after_episode", "wish"), [(False, "pause"), (True, "pause_after_episode")], ids=["now", "later"]
)
def test_a_kept_pause_outlives_its_process_until_its_end(
    tmp_path: Path, after_episode: bool, wish: str
) -> None:
    clock, path = _Clock(), tmp_path / "client" / "pause.json"
    KeptPause(path, clock).begin(after_episode, 1800.0)
    again = KeptPause(path, clock)
    assert (again.wish, again.until) == (wish, NOW + 1800)
    clock.now += 1799
    assert again.wish == wish
    clock.now += 1
    assert (again.wish, again.until) == ("run", None)


def test_a_pause_without_an_end_stays_until_it_is_ended(tmp_path: Path) -> None:
    clock, path = _Clock(), tmp_path / "pause.json"
    kept = KeptPause(path, clock)
    kept.begin(False, None)
    clock.now += 1e7
    assert (kept.wish, kept.until) == ("pause", None)
    kept.begin(False, 3600.0)  # another choice takes the place of the former
    assert kept.until == NOW + 1e7 + 3600
    kept.end()
    assert kept.wish == KeptPause(path, clock).wish == "run"
    path.write_bytes(b"\x00{")
    assert KeptPause(path).wish == "run"


@pytest.fixture
def runner(playing: ClientRunner) -> ClientRunner:
    return playing


async def test_a_pause_with_an_end_is_told_and_ends_by_itself(runner: ClientRunner) -> None:
    before = time.time()
    await call(runner, "clients.pause", client=NAME, for_s=2.0)
    assert before + 2 <= (client(runner).paused_until or 0.0) <= time.time() + 2
    await comes_to_be(runner, "paused")
    assert client(runner).wish == "pause"
    await comes_to_be(runner, "online")
    assert (wish(runner), client(runner).wish, client(runner).paused_until) == ("run", "run", None)
    assert not runner.folder.pause.exists()


async def test_neither_the_server_nor_another_server_ends_the_owners_pause(
    runner: ClientRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    await call(runner, "clients.pause", client=NAME, for_s=3600.0)
    await comes_to_be(runner, "paused")
    (runner.folder.root / "server_wish.json").write_text(Wish(command_id="x", state="run").to_json())
    report = runner._reports.newest
    await until(lambda: runner._reports.newest is not report and runner._reports.newest.wish is not None)  # type: ignore[union-attr]
    assert (client(runner).state, wish(runner)) == ("paused", "pause")
    await call(runner, "servers.choose", server_id="")
    await comes_to_be(runner, "paused")
    assert wish(runner) == "pause"

    # Once the last window is gone it plays nothing on.
    written: list[str] = []
    write = runner.player._write
    monkeypatch.setattr(runner.player, "_write", lambda wish: (written.append(wish), write(wish))[1])
    await runner.player.finish()
    assert written == ["stop"]


async def test_the_pause_of_an_ended_runner_holds_in_the_next(runner: ClientRunner, folders: Folders) -> None:
    await call(runner, "clients.pause", client=NAME, for_s=3600.0)
    ends = client(runner).paused_until
    await runner.close()
    async with opened(ClientRunner(folders, NAME, idle=True)) as second:
        await call(second, "service.start", name="client")
        await comes_to_be(second, "paused")
        assert (client(second).paused_until, wish(second)) == (ends, "pause")
        await call(second, "clients.resume", client=NAME)
        await comes_to_be(second, "online")
