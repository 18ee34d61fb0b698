import asyncio
import re
import socket
import ssl
import stat
import sys
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from soulsgui.config.paths import Folders
from soulsgui.errors import ServiceError
from soulsgui.runner.access.certificate import ensure_certificate, read_certificate
from soulsgui.runner.app import Runner
from soulsgui.runner.join.finder import Reply, try_address
from soulsgui.wire.connection import Address, WrongServer
from soulsgui.wire.invitation import FORMAT, Invitation
from tests.gateways import running_gateway
from tests.runner.running import address_of, call, connected, new_runner, opened


def test_it_is_made_once_private_and_valid_for_a_hundred_years(tmp_path: Path) -> None:
    made = ensure_certificate(tmp_path)
    assert re.fullmatch("[0-9a-f]{64}", made.pin)
    assert [path.name for path in tmp_path.iterdir()] == ["tls"]
    assert stat.S_IMODE(made.path.parent.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in made.path.parent.iterdir()} == {0o600}
    assert ensure_certificate(tmp_path) == made == read_certificate(tmp_path)
    (tmp_path / "other").mkdir()
    assert ensure_certificate(tmp_path / "other").pin != made.pin
    until = x509.load_pem_x509_certificate(made.path.read_bytes()).not_valid_after_utc
    assert until - datetime.now(UTC) > timedelta(days=99 * 365)
    made.key.chmod(0o644)
    with pytest.raises(ServiceError, match="can be read by others") as caught:
        ensure_certificate(tmp_path)
    assert "chmod 600" in caught.value.remedy


@pytest.mark.parametrize("text", [None, "", "nothing", "-----BEGIN CERTIFICATE-----\nx"])
def test_a_damaged_one_is_not_replaced_in_silence(tmp_path: Path, text: str | None) -> None:
    """Every invitation names it: with another one nobody would be let in."""
    made = ensure_certificate(tmp_path)
    made.path.unlink()
    if text is not None:
        made.path.write_text(text)
    with pytest.raises(ServiceError, match="can't be used") as caught:
        ensure_certificate(tmp_path)
    assert "issued again" in caught.value.remedy


pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a server runs on Linux and macOS")


@pytest.fixture
async def runner(folders: Folders, fake_services: None) -> AsyncIterator[Runner]:
    async with opened(new_runner(folders)) as made:
        with running_gateway(made.bus.address, folders.server):
            yield made


def ask(address: Address) -> object:
    with connected(address) as connection:
        return connection.ping()


async def invite(runner: Runner) -> Invitation:
    return Invitation.parse((await call(runner, "clients.invite.create", client="pc"))["link"])


async def test_an_invitation_names_the_certificate_and_no_other_one_is_taken_for_it(runner: Runner) -> None:
    invitation = await invite(runner)
    address = address_of(invitation)
    assert invitation.pin == read_certificate(runner.folders.server).pin
    assert invitation.version == FORMAT == 2, "who knows of no pins is told to update"
    assert Invitation.parse(invitation.file_text) == invitation
    assert await asyncio.to_thread(ask, address)
    wrong = replace(address, pin="0" * 64)
    with pytest.raises(WrongServer):
        await asyncio.to_thread(ask, wrong)
    for tried, reply, why in (
        (address, Reply.LET_IN, ""),
        (wrong, Reply.ANOTHER, "certificate"),
    ):
        told = await asyncio.to_thread(try_address, tried)
        assert told.reply is reply
        assert why in told.why


async def test_a_client_with_a_wrong_clock_is_let_in(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """The dates of the certificate are not looked at: OpenSSL would do so by a clock of its own."""
    invitation = await invite(runner)
    seen: list[ssl.VerifyMode] = []
    wrap, true_time = ssl.SSLContext.wrap_socket, time.time

    def watched(self: ssl.SSLContext, *args: object, **kwargs: object) -> ssl.SSLSocket:
        seen.append(self.verify_mode)
        return wrap(self, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(ssl.SSLContext, "wrap_socket", watched)
    for years in (-50, 200):
        monkeypatch.setattr(time, "time", lambda years=years: true_time() + years * 365 * 24 * 3600)
        assert await asyncio.to_thread(ask, address_of(invitation))
    assert set(seen) == {ssl.CERT_NONE}


def test_a_server_that_does_not_encrypt_is_none_of_an_invitation_that_wants_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as plain:

        def answer() -> None:
            with plain.accept()[0] as taken:
                taken.recv(65_536)
                taken.sendall(b"-ERR unknown command\r\n")

        answering = threading.Thread(target=answer)
        answering.start()
        told = try_address(Address("127.0.0.1", plain.getsockname()[1], pin="0" * 64))
        answering.join()
    assert (told.reply, told.why) == (Reply.SILENT, "it does not encrypt as the invitation says")
