"""Who we are, also where the system does not know."""

import getpass
import os

import pytest

from soulsgui.system import user_name


@pytest.mark.parametrize("kind", [KeyError, OSError])
def test_a_user_without_an_entry_has_a_number(kind: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> str:
        raise kind("uid not found")

    monkeypatch.setattr(getpass, "getuser", unknown)
    assert user_name() == str(os.getuid())
