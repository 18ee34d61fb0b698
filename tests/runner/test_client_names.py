"""What clients are called on screen: said once, kept over restarts, forgotten with them."""

import pytest

from soulsgui.config.paths import Folders
from soulsgui.runner.app import Runner
from soulsgui.runner.client_names import ClientNames
from soulsgui.runner.refusal import Refused
from tests.runner.running import call, new_runner


def names(runner: Runner) -> dict[str, str]:
    return {client.id: client.name for client in runner.status().clients}


async def test_a_client_is_called_otherwise_and_keeps_its_id_over_a_restart(
    runner: Runner, folders: Folders
) -> None:
    await call(runner, "clients.invite.create", client="gamer-01")
    await call(runner, "clients.rename", client="gamer-01", name="  Anna's\n PC ")
    assert names(runner) == {"gamer-01": "Anna's PC"}
    await runner.close()
    again = new_runner(folders)
    await again.open()
    try:
        assert names(again) == {"gamer-01": "Anna's PC"}
        await call(again, "clients.rename", client="gamer-01", name="")
        assert names(again) == {"gamer-01": "gamer-01"}
    finally:
        await again.close()


async def test_two_clients_are_not_called_alike_and_nobody_unknown_is_renamed(runner: Runner) -> None:
    for client in ("gamer-01", "gamer-02"):
        await call(runner, "clients.invite.create", client=client)
    await call(runner, "clients.rename", client="gamer-01", name="Anna")
    with pytest.raises(Refused, match="called 'Anna' already"):
        await call(runner, "clients.rename", client="gamer-02", name="Anna")
    with pytest.raises(Refused, match="gamer-02 is the id of another client"):
        await call(runner, "clients.rename", client="gamer-01", name="gamer-02")
    with pytest.raises(Refused, match="no client 'nobody'"):
        await call(runner, "clients.rename", client="nobody", name="Berta")
    assert names(runner) == {"gamer-01": "Anna", "gamer-02": "gamer-02"}


async def test_a_name_is_forgotten_with_its_client(runner: Runner) -> None:
    await call(runner, "clients.invite.create", client="gamer-01")
    await call(runner, "clients.rename", client="gamer-01", name="Anna")
    await call(runner, "clients.revoke", client="gamer-01")
    await call(runner, "clients.forget", client="gamer-01")
    await call(runner, "clients.invite.create", client="gamer-01")
    assert names(runner) == {"gamer-01": "gamer-01"}


def test_a_damaged_file_costs_the_names_alone(folders: Folders) -> None:
    folders.client_names.parent.mkdir(parents=True)
    folders.client_names.write_text("{")
    found = ClientNames(folders.client_names)
    assert found.of("gamer-01") == "gamer-01"
    found.set("gamer-01", "Anna", {"gamer-01"})
    assert ClientNames(folders.client_names).of("gamer-01") == "Anna"


async def test_nobody_is_invited_under_what_another_one_is_called(runner: Runner) -> None:
    await call(runner, "clients.invite.create", client="gamer-01")
    await call(runner, "clients.rename", client="gamer-01", name="Anna")
    with pytest.raises(Refused, match="called 'Anna' already"):
        await call(runner, "clients.invite.create", client="Anna")
    assert names(runner) == {"gamer-01": "Anna"}
    await call(runner, "clients.rename", client="gamer-01", name="")
    await call(runner, "clients.invite.create", client="Anna")
    await call(runner, "clients.invite.create", client="Anna", reissue=True)
    assert set(names(runner)) == {"gamer-01", "Anna"}
