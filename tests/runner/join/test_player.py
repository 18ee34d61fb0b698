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


@pytest.mark.parametrize(("later", "wanted"), [(False, "pause"), (True, "pause_after_episode")])
def test_a_kept_pause_outlives_its_process_until_its_end(tmp_path: Path, later: bool, wanted: str) -> None:
    now, path = NOW, tmp_path / "client" / "pause.json"
    KeptPause(path, lambda: now).begin(later, 1800.0)
    again = KeptPause(path, lambda: now)
    assert (again.wish, again.until) == (wanted, NOW + 1800)
    now += 1799
    assert again.wish == wanted
    now += 1
    assert (again.wish, again.until) == ("run", None)


def test_a_pause_without_an_end_stays_until_it_is_ended(tmp_path: Path) -> None:
    now, path = NOW, tmp_path / "pause.json"
    kept = KeptPause(path, lambda: now)
    kept.begin(False, None)
    now += 1e7
    assert (kept.wish, kept.until) == ("pause", None)
    kept.begin(False, 3600.0)  # another choice takes the place of the former
    assert kept.until == NOW + 1e7 + 3600
    kept.end()
    assert kept.wish == KeptPause(path).wish == "run"
    path.write_bytes(b"\x00{")
    assert KeptPause(path).wish == "run"


async def test_a_pause_with_an_end_is_told_and_ends_by_itself(playing: ClientRunner) -> None:
    before = time.time()
    await call(playing, "clients.pause", client=NAME, for_s=3600.0)
    assert before + 3600 <= (client(playing).paused_until or 0.0) <= time.time() + 3600
    await comes_to_be(playing, "paused")
    assert client(playing).wish == "pause"
    await call(playing, "clients.pause", client=NAME, for_s=1.0)
    await comes_to_be(playing, "online")
    assert (wish(playing), client(playing).wish, client(playing).paused_until) == ("run", "run", None)
    assert not playing.folder.pause.exists()


async def test_neither_the_server_nor_another_server_ends_the_owners_pause(
    playing: ClientRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    await call(playing, "clients.pause", client=NAME, for_s=3600.0)
    await comes_to_be(playing, "paused")
    (playing.folder.root / "server_wish.json").write_text(Wish(command_id="x", state="run").to_json())
    report = playing._reports.newest
    await until(lambda: playing._reports.newest is not report and playing._reports.newest.wish is not None)  # type: ignore[union-attr]
    assert (client(playing).state, wish(playing)) == ("paused", "pause")
    await call(playing, "servers.choose", server_id="")
    await comes_to_be(playing, "paused")
    assert wish(playing) == "pause"

    # Once the last window is gone it plays nothing on.
    written: list[str] = []
    write = playing.player._write
    monkeypatch.setattr(playing.player, "_write", lambda wish: (written.append(wish), write(wish))[1])
    await playing.player.finish()
    assert written == ["stop"]


async def test_the_pause_of_an_ended_runner_holds_on(playing: ClientRunner, folders: Folders) -> None:
    await call(playing, "clients.pause", client=NAME, for_s=3600.0)
    ends = client(playing).paused_until
    await playing.close()
    async with opened(ClientRunner(folders, NAME, idle=True)) as second:
        await call(second, "service.start", name="client")
        await comes_to_be(second, "paused")
        assert (client(second).paused_until, wish(second)) == (ends, "pause")
        await call(second, "clients.resume", client=NAME)
        await comes_to_be(second, "online")
