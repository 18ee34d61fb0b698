"""A whole run with an invited computer: who can read which secret."""

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import psutil
import pytest

from soulsgui.wire.api_client import CONTROL_FILE
from soulsgui.wire.connection import Address
from soulsgui.wire.control import ControlFile
from soulsgui.wire.invitation import Invitation
from tests.end_to_end.server import UNHURRIED, RunningServer, last_json, soulsgui_here, wait_for

LOCAL = ("client-1", "client-2")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with closing(RunningServer(tmp_path_factory.mktemp("server"))) as running:
        small = {**UNHURRIED, "clients.local": len(LOCAL), "checkpoint.every_updates": 2}
        running.begin("run.start", overrides=small)
        yield running


@pytest.fixture(scope="module")
def invitation(server: RunningServer) -> Invitation:
    """What the invited computer got; it plays."""
    file = server.folder / "pc.soulsgui"
    done = soulsgui_here("invite", "pc", "--json", "--file", str(file), folder=server.folder)
    assert done.returncode == 0, done.stderr
    invitation = Invitation.load(file)
    # The link on its command line, as somebody would type it.
    server.spawn("client", last_json(done.stdout)["link"], "--trust")
    wait_for(lambda: server.client_state("pc") == "online", "the invited computer plays")
    server.wait_updates(3)
    return invitation


@pytest.fixture(scope="module")
def secrets(server: RunningServer, invitation: Invitation) -> dict[str, str]:
    """Everything that nobody else may know, by what it is."""
    own = Address.read(server.data / "server" / "redis.json").password
    local = {name: Address.read(server.data / f"server/local/{name}.json").password for name in LOCAL}
    key = (server.data / "server" / "tls" / "key.pem").read_text().splitlines()[1]
    return {
        "the server's password": own,
        "the token of the control interface": ControlFile.load(server.data / "server" / CONTROL_FILE).token,
        "the secret of the invited": invitation.secret,
        "its link": invitation.link.rpartition("/")[2],
        "the key of the certificate": key,
        **local,
    }


def test_all_of_it_is_encrypted_and_trains_and_each_secret_is_its_own(
    server: RunningServer, invitation: Invitation, secrets: dict[str, str]
) -> None:
    status = server.status()
    assert status.server.url.startswith("rediss://")
    wanted = dict.fromkeys((*LOCAL, "pc"), "online")  # now and then one waits for a round
    wait_for(lambda: {one.id: one.state for one in server.status().clients} == wanted, "all play")
    assert status.run.rejected == {}
    assert invitation.pin == Address.read(server.data / "server" / "redis.json").pin != ""
    assert len(set(secrets.values())) == len(secrets)
    assert all(len(secret) >= 32 for secret in secrets.values())


def test_no_process_of_the_machine_shows_a_secret(server: RunningServer, secrets: dict[str, str]) -> None:
    """Everybody may list command lines; the environment is inherited by whatever a process starts."""
    ours = {one.pid for one in server.status().services} | {server.process.pid}
    seen = set()
    for process in psutil.process_iter(["cmdline"]):
        try:
            words = [*(process.info["cmdline"] or []), *(process.environ() or {}).values()]
        except psutil.Error:
            continue
        seen.add(process.pid)
        told = [name for name, secret in secrets.items() if any(secret in word for word in words)]
        assert not told, f"{process.pid} tells {told}"
    assert ours <= seen


def test_secrets_stand_in_private_files_alone_and_in_no_log(
    server: RunningServer, secrets: dict[str, str]
) -> None:
    server.api.command("checkpoint.save", {"note": "for the search"})
    data, config = server.data / "server", server.folder / "config"
    expected = {
        config / "redis.secret",
        data / "redis.json",
        data / CONTROL_FILE,
        data / "tls" / "key.pem",
        server.folder / "pc.soulsgui",
        *(data / "local" / f"{name}.json" for name in LOCAL),
        *(config / "servers").glob("*.soulsgui"),
    }
    files = dict(_files(server.folder))
    words = [secret.encode() for secret in secrets.values()]
    found = {path for path, data in files.items() if any(word in data for word in words)}
    assert found == expected
    agreed = set((config / "servers").glob("*.agreed.json"))
    assert agreed, "what may run is kept beside it"
    found |= agreed
    if sys.platform != "win32":
        assert {stat.S_IMODE(path.stat().st_mode) for path in found} == {0o600}
        assert {path.stat().st_uid for path in found} == {os.geteuid()}
    assert any(path.suffix == ".log" for path in files), "logs were looked at"


def _files(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Yield each file below a folder and what is in it; one may give way to a newer one meanwhile."""
    for place, _, names in os.walk(folder):
        for path in (Path(place, name) for name in names):
            with suppress(FileNotFoundError):
                if path.is_file():
                    yield path, path.read_bytes()
