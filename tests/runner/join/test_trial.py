"""Testing the server, and looking for it at another address: what is said, what is taken, what is refused."""

import pytest
import redis

from soulsgui.errors import UsageError
from soulsgui.runner.join import app
from soulsgui.runner.join import servers as trial
from soulsgui.runner.join.app import ClientRunner
from soulsgui.runner.join.finder import Reply, TryResult
from soulsgui.runner.refusal import Refused
from soulsgui.system import free_port
from soulsgui.wire.connection import Address
from soulsgui.wire.control import ServiceStatus
from soulsgui.wire.invitation import Invitation
from soulsgui.wire.keys import PROTOCOL
from soulsgui.wire.versions import MissingRequirement
from tests.runner.joining import SECRET, client, comes_to_be, describe_run, invitation_to
from tests.runner.running import call

pytestmark = pytest.mark.usefixtures("fake_client")


async def test_a_test_tells_how_well_the_server_is_and_what_it_needs_or_why_it_is_not_reached(
    idle: ClientRunner, invitation: Invitation, redis_client: redis.Redis, redis_address: Address
) -> None:
    assert (await call(idle, "servers.test"))["error"] == "No server runs on this computer."
    idle.folders.server.mkdir(parents=True)
    redis_address.write(idle.folders.server_address)
    assert (await call(idle, "servers.test"))["address"] == f"127.0.0.1:{redis_address.port}"

    idle.saved.keep(invitation)
    idle.saved.choose(invitation)
    describe_run(redis_client, redis_address.prefix)
    found = await call(idle, "servers.test")
    assert found["address"] == f"127.0.0.1:{invitation.addresses[1][1]}"
    assert (found["error"], found["shut_out"]) == ("", False)
    assert (found["env_id"], found["lacks"]) == ("Toy-v0", [])
    assert 0 < found["round_trip_s"] < 10
    assert (await call(idle, "servers.list"))["chosen"] == "server-1"

    least = {"soulsgui": "999.0", "numpy": "1.0", "no-such-package": "2"}
    describe_run(redis_client, redis_address.prefix, PROTOCOL + 1, clients__min_versions=least)
    protocol, own, missing = (await call(idle, "servers.test"))["lacks"]
    assert protocol == {"what": "protocol", "has": str(PROTOCOL), "needs": str(PROTOCOL + 1)}
    assert (own["what"], own["needs"]) == ("soulsgui", "999.0")
    assert missing == {"what": "no-such-package", "has": "", "needs": "2"}

    revoked = invitation.model_copy(update={"secret": "another-secret-of-nobody"})
    for kept, shut_out, said in (
        (revoked, True, "not let this computer in"),
        (invitation_to(("127.0.0.1", free_port())), False, "No answer from"),
    ):
        idle.saved.keep(kept)
        idle.saved.choose(kept)
        found = await call(idle, "servers.test")
        assert (found["shut_out"], found["address"], found["round_trip_s"]) == (shut_out, "", None)
        assert said in found["error"]


async def test_a_server_that_moved_is_played_for_at_its_new_address(
    idle: ClientRunner, invitation: Invitation, gateway: Address
) -> None:
    moved = invitation.model_copy(update={"addresses": (("127.0.0.1", free_port()),)})
    await call(idle, "servers.join", invitation=moved.link)
    assert client(idle).state != "online"
    place = f" 127.0.0.1:{gateway.port} "
    assert (await call(idle, "servers.change_address", server_id="server-1", place=place))["taken"]
    await comes_to_be(idle, "online")
    (kept,) = idle.saved.all()
    assert kept.addresses[0] == ("127.0.0.1", gateway.port)
    assert len(kept.addresses) == 2, "the former one may be right again"
    assert kept.secret == SECRET


async def test_another_address_is_taken_only_when_confirmed_where_it_is_not_found_and_never_for_another(
    idle: ClientRunner, invitation: Invitation, gateway: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Refused, match="no invitation of a server"):
        await call(idle, "servers.change_address", server_id="nobody", place="127.0.0.1:1")
    idle.saved.keep(invitation)
    with pytest.raises(UsageError, match="not the address of a server"):
        await call(idle, "servers.change_address", server_id="server-1", place="127.0.0.1:port")
    stranger = invitation.model_copy(update={"secret": "unknown-to-that-server"})
    for kept, place, said in (
        (stranger, f"127.0.0.1:{gateway.port}", "a different server than atelier"),
        (invitation, f"127.0.0.1:{free_port()}", "No answer from"),
    ):
        idle.saved.keep(kept)
        params = {"server_id": "server-1", "place": place}
        answer = await call(idle, "servers.change_address", **params)
        assert (answer["taken"], answer["final"]) == (False, False)
        assert said in answer["why"]
        assert idle.saved.all() == [kept]
        assert (await call(idle, "servers.change_address", confirmed=True, **params))["taken"]
        assert ":".join(map(str, idle.saved.all()[0].addresses[0])) == place

    # One with another certificate is refused for good.
    monkeypatch.setattr(trial, "try_address", lambda _: TryResult(Reply.ANOTHER, "another server answers"))
    idle.saved.keep(invitation)
    answer = await call(
        idle, "servers.change_address", server_id="server-1", place="127.0.0.2:5", confirmed=True
    )
    assert (answer["taken"], answer["final"]) == (False, True)
    assert idle.saved.all() == [invitation]


LACK = MissingRequirement(what="a", has="", needs="1")


@pytest.mark.parametrize(("lacking", "times"), [([], 1), ([LACK], 0), (None, 0)])
async def test_a_client_that_gave_up_for_its_version_begins_anew_once_it_fits(
    idle: ClientRunner, monkeypatch: pytest.MonkeyPatch, lacking: list[MissingRequirement] | None, times: int
) -> None:
    began: list[str] = []

    async def restart() -> None:
        began.append("anew")

    client = idle._client().model_copy(update={"lacks": [LACK]})
    given_up = ServiceStatus(name="client", kind="client", state="failed")
    monkeypatch.setattr(app, "lacks_of", lambda _: lacking)
    monkeypatch.setattr(idle, "_client", lambda: client)
    monkeypatch.setattr(idle._server.search, "address", Address("127.0.0.1", 1))
    for name, value in (("wanted", True), ("status", lambda: given_up), ("restart", restart)):
        monkeypatch.setattr(idle.player, name, value)
    await idle._join_when_it_fits()
    assert len(began) == times
    monkeypatch.setattr(idle.player, "wanted", False)
