"""The certificate of a server: made once, private, kept."""

import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from soulsgui.errors import ServiceError
from soulsgui.runner.certificate import ensure_certificate, read_certificate

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a server runs on Linux and macOS")


def test_it_is_made_once_private_and_valid_for_a_hundred_years(tmp_path: Path) -> None:
    made = ensure_certificate(tmp_path)
    assert re.fullmatch("[0-9a-f]{64}", made.pin)
    assert [path.name for path in tmp_path.iterdir()] == ["tls"]
    assert stat.S_IMODE(made.path.parent.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in made.path.parent.iterdir()} == {0o600}
    assert ensure_certificate(tmp_path, which=lambda name: None) == made == read_certificate(tmp_path)
    in_99_years = 99 * 365 * 24 * 3600
    words = ["openssl", "x509", "-in", str(made.path), "-noout", "-checkend", str(in_99_years)]
    assert subprocess.run(words, capture_output=True, check=False).returncode == 0


def test_two_servers_have_two(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    assert ensure_certificate(tmp_path / "a").pin != ensure_certificate(tmp_path / "b").pin


def test_without_openssl_it_is_said_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="openssl") as caught:
        ensure_certificate(tmp_path, which=lambda name: None)
    assert "apt install openssl" in caught.value.remedy
    assert list(tmp_path.iterdir()) == []


def test_an_openssl_that_fails_is_quoted(tmp_path: Path) -> None:
    program = tmp_path / "openssl"
    program.write_text("#!/bin/sh\necho no entropy today >&2\nexit 1\n")
    program.chmod(0o755)
    (tmp_path / "server").mkdir()
    with pytest.raises(ServiceError, match="no entropy today"):
        ensure_certificate(tmp_path / "server", which=lambda name: str(program))
    assert list((tmp_path / "server").iterdir()) == []


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    ensure_certificate(tmp_path).key.chmod(0o644)
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
    assert "issued anew" in caught.value.remedy
