"""Invitations that were taken up on a computer, and the one it plays for."""

import stat
import sys
from pathlib import Path

import pytest

from soulsgui.config.paths import Folders
from soulsgui.runner.join.saved import SavedInvitations
from soulsgui.wire.invitation import Invitation


@pytest.fixture
def saved(folders: Folders) -> SavedInvitations:
    return SavedInvitations(folders)


def invitation(server_id: str = "server-1", secret: str = "s" * 43) -> Invitation:
    return Invitation(
        server_id=server_id,
        server_name="atelier",
        client="gamer",
        addresses=(("192.168.1.5", 6379),),
        secret=secret,
        prefix="souls:",
        created=1.0,
    )


def test_each_server_has_one_private_file_under_its_id(folders: Folders, saved: SavedInvitations) -> None:
    for one in (invitation(), invitation("server-2"), invitation(secret="t" * 43)):
        saved.keep(one)
    files = sorted((folders.config / "servers").iterdir())
    assert [path.name for path in files] == ["server-1.soulsgui", "server-2.soulsgui"]
    assert Invitation.load(files[0]).secret == "t" * 43
    if sys.platform != "win32":
        assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
        assert stat.S_IMODE(files[0].parent.stat().st_mode) == 0o700


def test_the_choice_is_remembered_until_another_is_made(folders: Folders, saved: SavedInvitations) -> None:
    assert saved.chosen() is None
    for one in (invitation(), invitation("server-2")):
        saved.keep(one)
        saved.choose(one)
        assert SavedInvitations(folders).chosen() == one
    saved.choose(None)
    assert SavedInvitations(folders).chosen() is None


@pytest.mark.allow_warnings
def test_an_invitation_that_is_gone_or_damaged_is_said(
    saved: SavedInvitations, caplog: pytest.LogCaptureFixture
) -> None:
    path = saved.keep(invitation())
    saved.choose(invitation())
    path.write_text("{")
    assert saved.chosen() is None
    path.unlink()
    assert saved.chosen() is None
    damaged, gone = [record.getMessage() for record in caplog.records]
    assert "is damaged or cut off" in damaged
    assert "There is no invitation in" in gone
    assert all("own server takes its place" in line for line in (damaged, gone))


def test_a_damaged_choice_is_none(folders: Folders, saved: SavedInvitations) -> None:
    saved.choose(invitation())
    Path(folders.client / "joined.json").write_text("[")
    assert saved.chosen() is None
