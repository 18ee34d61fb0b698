import asyncio
from typing import Any

import pytest
import redis

from soulsgui.config.paths import Folders
from soulsgui.runner.access.invitations import Invited
from soulsgui.runner.access.roster import ClientNames, ClientRoster
from soulsgui.runner.app import Runner
from soulsgui.runner.refusal import Refused
from soulsgui.runner.server.reader import SeenClient, ServerReader, Turn
from soulsgui.wire.connection import Address
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.base import Instance
from soulsgui.wire.messages.heartbeat import Answer, Heartbeat
from soulsgui.wire.messages.node import NodeState
from soulsgui.wire.messages.session import NO_SESSION, Grant, Wish
from tests.faults.waiting import LIMIT_S
from tests.runner.running import call


def beat(name: str, counter: int = 1, **fields: Any) -> Heartbeat:
    return Heartbeat.model_validate(
        {"client": name, "instance": Instance(host="pc"), "counter": counter, "phase": "sampling", **fields}
    )


def trainer(**fields: Any) -> NodeState:
    return NodeState(name="trainer", instance=Instance(), tick=1, **fields)


def turn(clients: dict[str, SeenClient], listed: dict[str, str] | None = None) -> Turn:
    return Turn(True, roster=dict.fromkeys(clients, "{}") if listed is None else listed, clients=clients)


def seen(
    beat: Heartbeat | None, age_s: float | None = 0.0, grant: Grant | None = None, wish: Wish | None = None
) -> SeenClient:
    return SeenClient(beat, age_s, grant, wish)


def test_client_that_falls_silent_is_late_then_lost_and_its_first_age_is_the_servers() -> None:
    roster = ClientRoster(Keys())
    names = ["client-10", "client-2", "a", "away"]
    clients = {name: seen(beat(name, env_steps_per_s=50.0)) for name in names}
    clients["away"] = seen(beat("away"), age_s=100.0)
    roster.take(turn(clients), 0.0)
    assert (roster.state("a", 1.0), roster.state("away", 0.0)) == ("online", "lost")
    sorted_as_people_count = ["a", "away", "client-2", "client-10"]
    assert [status.id for status in roster.statuses(1.0, None)] == sorted_as_people_count
    assert roster.statuses(1.0, None)[0].env_steps_per_s == 50.0
    roster.take(turn({"a": seen(beat("a", env_steps_per_s=50.0), None)}), 6.0)
    assert roster.state("a", 6.0) == "late"
    assert roster.statuses(6.0, None)[0].env_steps_per_s == 0.0
    assert roster.state("a", 31.0) == "lost"
    roster.take(turn({"a": seen(beat("a", counter=2), None)}), 40.0)
    assert roster.state("a", 40.5) == "online"


def test_status_tells_what_the_client_the_trainer_and_the_runner_say() -> None:
    roster = ClientRoster(Keys())
    grant = Grant(session="1-0", status="refused", reason="other contract", rejected={"late": 1})
    client = beat(
        "a", session="1-0", run_id="r", model_id=5, update=4, env_steps=70, versions={"soulsgui": "1.2"}
    )
    roster.take(turn({"a": seen(client, 0.0, grant, Wish(command_id="x", state="pause"))}), 0.0)
    told = trainer(run_id="r", model_id=9, updates=7, rejected_by_client={"a": {"shape": 2}})
    (status,) = roster.statuses(1.0, told)
    assert (status.state, status.error, status.host) == ("refused", "other contract", "pc")
    assert (status.lag, status.env_steps, status.version, status.wish) == (3, 70, "1.2", "pause")
    assert status.rejected == {"late": 1, "shape": 2}
    assert status.age_s == 1.0


def invited(client: str, revoked: float | None = None, at: float = 5.0, again: bool = False) -> Invited:
    return Invited(client=client, hash="" if revoked else "0" * 64, invited=at, revoked=revoked, again=again)


def test_the_invited_are_listed_before_they_come_without_alarm(redis_client: redis.Redis, keys: Keys) -> None:
    roster = ClientRoster(keys)
    roster.set_invited({"pc": invited("pc")})
    (status,) = roster.statuses(0.0, None)
    assert (status.state, status.age_s, status.invited) == ("joining", None, 5.0)
    (write,) = roster.take(turn({}), 0.0)
    write(redis_client)
    assert redis_client.hkeys(keys.clients) == [b"pc"]
    assert roster.take(turn({"pc": seen(None, None)}, {"pc": "{}"}), 0.0) == []
    assert "pc" in roster


def test_a_revoked_client_is_read_no_more_and_not_forgotten(redis_client: redis.Redis, keys: Keys) -> None:
    roster = ClientRoster(keys)
    for stream in (keys.chunks("pc"), keys.episodes("pc"), keys.chunks("other")):
        redis_client.xadd(stream, {"c": b"x"})
    redis_client.hset(keys.clients, mapping={"pc": "{}", "other": "{}"})
    redis_client.set(keys.wish("pc"), Wish(command_id="x", state="pause").to_json())
    redis_client.set(keys.beat("pc"), beat("pc").to_json())
    roster.set_invited({"pc": invited("pc", revoked=9.0)})
    here = {"pc": seen(beat("pc", env_steps=70)), "other": seen(beat("other"))}
    (write,) = roster.take(turn(here, {"pc": "{}", "other": "{}"}), 0.0)
    write(redis_client)
    assert redis_client.hkeys(keys.clients) == [b"other"]
    assert sorted(redis_client.keys(f"{keys.prefix}*")) == sorted(
        key.encode() for key in (keys.clients, keys.chunks("other"), keys.beat("pc"))
    )
    # Its last beat stays for a week: it says where it was, and does not put it on the list again.
    assert roster.take(turn(here, {"other": "{}"}), 1.0) == []
    assert roster.state("pc", 1.0) == "revoked"
    status = roster.statuses(1.0, None)[1]
    assert (status.id, status.state, status.host, status.env_steps) == ("pc", "revoked", "pc", 70)
    assert status.env_steps_per_s == 0.0


def test_who_is_invited_again_begins_anew_with_a_new_process() -> None:
    roster = ClientRoster(Keys())
    roster.set_invited({"pc": invited("pc", revoked=9.0)})
    old = seen(
        beat("pc", env_steps=70, error="oh"),
        100.0,
        Grant(session="1-0", status="accepted", rejected={"nan": 3}),
    )
    roster.take(turn({"pc": old}, {}), 0.0)
    told = trainer(phase="collecting", rejected_by_client={"pc": {"late": 2}})
    roster.set_invited({"pc": invited("pc", at=2.0, again=True)})
    (status,) = roster.statuses(0.0, told)
    assert (status.state, status.age_s, status.env_steps, status.error) == ("joining", None, 0, "")
    assert (status.rejected, status.invited_again, status.host) == ({}, True, "")

    # Only a wish that was wished since counts.
    asked = seen(None, None, Grant(session="1-0", status="accepted"), Wish(command_id="x", state="pause"))
    roster.take(turn({"pc": asked}), 2.0)
    (status,) = roster.statuses(2.0, told)
    assert (status.state, status.wish, status.error) == ("joining", "pause", "")
    new = beat("pc", instance=Instance(host="pc", pid=7), env_steps=1)
    roster.take(turn({"pc": seen(new)}), 3.0)
    assert (roster.state("pc", 3.0), roster.statuses(3.0, None)[0].env_steps) == ("online", 1)


def test_the_absence_of_the_server_is_no_clients_silence() -> None:
    roster = ClientRoster(Keys())
    here = turn({"a": seen(beat("a"))})
    roster.take(here, 0.0)
    roster.take(Turn(reachable=False), 1.0)
    assert roster.state("a", 40.0) == "online"
    assert roster.statuses(40.0, None)[0].age_s == 0.0
    roster.take(Turn(reachable=True), 40.5)  # a turn that does not look at clients
    roster.take(here, 41.0)
    assert roster.state("a", 41.0) == "online"
    assert roster.state("a", 47.0) == "late"


def test_of_simulated_clients_nothing_stays_when_they_left(redis_client: redis.Redis, keys: Keys) -> None:
    roster = ClientRoster(keys)
    clients = {
        "gamer": seen(beat("gamer", leaving=True)),
        "sim-1": seen(beat("sim-1", simulated=True, leaving=True)),
        "sim-2": seen(beat("sim-2", simulated=True)),
    }
    assert roster.take(turn(clients), 0.0) == []  # the trainer still reads what it sent
    assert [one.id for one in roster.statuses(0.0, None)] == ["gamer", "sim-2"]
    redis_client.set(keys.beat("sim-1"), beat("sim-1").to_json())
    redis_client.xadd(keys.chunks("sim-1"), {"c": b"x"})
    redis_client.hset(keys.clients, mapping=dict.fromkeys(clients, "{}"))
    for write in roster.take(turn(clients), 60.0):
        write(redis_client)
    assert redis_client.keys(f"{keys.prefix}*") == [keys.clients.encode()]
    assert sorted(redis_client.hkeys(keys.clients)) == [b"gamer", b"sim-2"]


def test_own_clients_of_earlier_runs_are_forgotten(redis_client: redis.Redis, keys: Keys) -> None:
    before = ClientRoster(keys)
    before.set_local(["client-1", "client-2"])
    before.listing(["client-1", "client-2", "gamer"])(redis_client)
    redis_client.set(keys.beat("client-2"), beat("client-2").to_json())
    roster = ClientRoster(keys)  # a new runner, which has read nothing yet
    roster.set_local(["client-1"])
    roster.forgetting_stale_locals()(redis_client)
    assert sorted(redis_client.hkeys(keys.clients)) == [b"client-1", b"gamer"]
    assert not redis_client.exists(keys.beat("client-2"))


def test_of_one_who_was_gone_before_the_run_no_numbers_are_told() -> None:
    roster = ClientRoster(Keys())
    fields = {"run_id": "old", "env_id": "E", "env_steps": 70, "error": "oh", "mean_return": 3.0}
    clients = {
        "away": seen(beat("away", leaving=True, **fields)),
        "here": seen(beat("here", **fields)),
        "lost": seen(beat("lost", **fields), age_s=100.0),
    }
    roster.take(turn(clients), 0.0)
    away, here, lost = roster.statuses(5.0, None, "new")
    for status in (away, lost):
        assert (status.env_id, status.env_steps, status.error, status.mean_return) == ("", 0, "", None)
    assert (away.state, away.age_s, lost.state, lost.age_s) == ("left", 5.0, "lost", 105.0)
    assert (here.env_steps, here.error) == (70, "oh")
    assert roster.statuses(5.0, None, "old")[0].env_steps == 70


def test_wish_is_written_with_its_wake_up_and_taken_back_once_obeyed(
    redis_client: redis.Redis, redis_address: Address, keys: Keys
) -> None:
    reader, roster = ServerReader(redis_address), ClientRoster(keys)
    listening = redis_client.pubsub()
    listening.subscribe(keys.wake_up("a"))
    assert listening.get_message(timeout=LIMIT_S) is not None
    roster.wishing("a", Wish(command_id="w", state="finish"))(redis_client)
    wish = Wish.read(redis_client.get(keys.wish("a")))  # type: ignore[arg-type]
    assert wish.state == "finish"
    woken = listening.get_message(timeout=LIMIT_S)
    assert woken["data"].decode() == wish.command_id
    listening.close()
    obeyed = Answer(command_id=wish.command_id, ok=True)
    for leaving in (False, True):
        text = beat("a", answered=obeyed, leaving=leaving).to_json()
        redis_client.set(keys.beat("a"), text, ex=600_000)
        for write in roster.take(reader.turn(True), 0.0):
            write(redis_client)
        assert redis_client.exists(keys.wish("a")) == (0 if leaving else 1)
        assert redis_client.hkeys(keys.clients) == [b"a"], "who was not on the roster is put there"
    reader.close()


def test_forgetting_removes_one_client(redis_client: redis.Redis, redis_address: Address, keys: Keys) -> None:
    roster = ClientRoster(keys)
    for name in ("a", "b"):
        roster.listing([name])(redis_client)
        for key in (keys.beat(name), keys.grant(name), keys.wish(name)):
            redis_client.set(key, "x")
        for key in (keys.chunks(name), keys.episodes(name)):
            redis_client.xadd(key, {"x": "y"})
    roster.forgetting("a")(redis_client)
    for nobody in (roster.listing([]), roster.forgetting(), roster.without_wish()):
        nobody(redis_client)
    left = sorted(key.decode().removeprefix(keys.prefix) for key in redis_client.keys(f"{keys.prefix}*"))
    assert left == ["beat:b", "clients", "ep:b", "grant:b", "in:b", "to:b"]
    assert redis_client.hkeys(keys.clients) == [b"b"]


def test_who_sends_without_a_beat_is_shown_with_what_was_refused_of_it_and_an_own_client_is_joining() -> None:
    roster = ClientRoster(Keys())
    roster.set_local(["client-1"])
    roster.take(turn({"silent": seen(None, None), "client-1": seen(None, None)}), 0.0)
    own, silent = roster.statuses(0.0, trainer(rejected_by_client={"silent": {"not_admitted": 7}}))
    assert (own.state, silent.state, silent.rejected) == ("joining", "lost", {"not_admitted": 7})
    assert silent.error == "It sends samples, but no heartbeats."
    assert roster.statuses(0.0, None)[1].error == ""


def test_who_is_cut_off_before_it_ever_gave_a_sign_of_life_is_listed_so() -> None:
    roster = ClientRoster(Keys())
    grant = Grant(session=NO_SESSION, status="quarantined", reason="it held too much")
    clients = {"silent": seen(None, None, grant), "beats": seen(beat("beats"), grant=grant)}
    roster.take(turn(clients), 0.0)
    told = [(one.id, one.state, one.error) for one in roster.statuses(0.0, None)]
    assert told == [(name, "quarantined", "it held too much") for name in ("beats", "silent")]


def test_who_is_cut_off_is_news_once() -> None:
    roster = ClientRoster(Keys())
    cut = Grant(session="1-0", status="quarantined", reason="50 refused segments in a row")
    before = turn({"old": seen(beat("old"), grant=cut), "bad": seen(beat("bad"))})
    roster.take(before, 0.0)
    assert roster.news_of_cut_off() == []  # what was before this runner is no news
    roster.take(turn({"old": seen(beat("old"), grant=cut), "bad": seen(beat("bad"), grant=cut)}), 1.0)
    assert roster.news_of_cut_off() == [("bad", "50 refused segments in a row")]
    assert roster.news_of_cut_off() == []
    roster.take(before, 2.0)
    assert roster.news_of_cut_off() == []
    roster.take(turn({"bad": seen(beat("bad"), grant=cut)}), 3.0)
    assert roster.news_of_cut_off() == [("bad", "50 refused segments in a row")]


def test_who_falls_silent_is_lost_once_and_back_once_and_a_goodbye_is_no_news() -> None:
    roster = ClientRoster(Keys())
    roster.set_local(["client-1"])
    names = ("client-1", "gone", "quiet", "stays")

    def take(now: float, counter: int, without: tuple[str, ...] = (), **fields: Any) -> None:
        clients = {
            name: seen(
                beat(name, 1 if name in without else counter, **(fields if name == "gone" else {})), None
            )
            for name in names
        }
        roster.take(turn(clients), now)

    roster.take(turn({"before": seen(beat("before"), age_s=100.0)}), 0.0)
    assert roster.news_of_lost(0.0) == ([], []), "what was before this runner is no news"
    take(1.0, 1)
    assert roster.news_of_lost(1.0) == ([], [])
    take(40.0, 2, ("client-1", "quiet"), leaving=True)
    assert roster.news_of_lost(40.0) == (["quiet"], [])
    assert roster.news_of_lost(40.5) == ([], [])
    take(41.0, 3, ("client-1",))
    assert roster.news_of_lost(41.0) == ([], ["quiet"])
    take(42.0, 4, ("client-1",))
    assert roster.news_of_lost(42.0) == ([], [])


def names(runner: Runner) -> dict[str, str]:
    return {client.id: client.name for client in runner.status().clients}


async def test_no_two_clients_are_called_alike_and_names_are_forgotten_with_them(runner: Runner) -> None:
    for client in ("gamer-01", "gamer-02"):
        await call(runner, "clients.invite.create", client=client)
    await call(runner, "clients.rename", client="gamer-01", name="  Anna's\n PC ")
    assert names(runner) == {"gamer-01": "Anna's PC", "gamer-02": "gamer-02"}
    await call(runner, "clients.rename", client="gamer-01", name="")
    assert names(runner)["gamer-01"] == "gamer-01"
    await call(runner, "clients.rename", client="gamer-01", name="Anna")
    for command, params, said in (
        ("clients.rename", {"client": "gamer-02", "name": "Anna"}, "called “Anna” already"),
        ("clients.rename", {"client": "gamer-01", "name": "gamer-02"}, "is the id of another client"),
        ("clients.rename", {"client": "nobody", "name": "Berta"}, "no client “nobody”"),
        ("clients.invite.create", {"client": "Anna"}, "called “Anna” already"),
    ):
        with pytest.raises(Refused, match=said):
            await call(runner, command, **params)
    assert names(runner) == {"gamer-01": "Anna", "gamer-02": "gamer-02"}
    assert ClientNames(runner.folders.client_names).of("gamer-01") == "Anna", "also for the next runner"
    await call(runner, "clients.revoke", client="gamer-01")
    await call(runner, "clients.forget", client="gamer-01")
    await call(runner, "clients.invite.create", client="gamer-01")
    assert names(runner)["gamer-01"] == "gamer-01"
    await call(runner, "clients.invite.create", client="Anna")
    await call(runner, "clients.invite.reissue", client="Anna")
    assert set(names(runner)) == {"gamer-01", "gamer-02", "Anna"}


def test_a_damaged_file_costs_the_names_alone(folders: Folders) -> None:
    folders.client_names.parent.mkdir(parents=True)
    folders.client_names.write_text("{")
    found = ClientNames(folders.client_names)
    assert found.of("gamer-01") == "gamer-01"
    found.set("gamer-01", "Anna", {"gamer-01"})
    assert ClientNames(folders.client_names).of("gamer-01") == "Anna"


async def test_a_server_that_goes_away_before_what_follows_is_written_is_asked_for_it_again(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    away, written = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def write(_connection: redis.Redis) -> None:
        if not away.is_set():
            loop.call_soon_threadsafe(away.set)
            raise redis.ConnectionError("gone")  # an error in the log would fail this test
        loop.call_soon_threadsafe(written.set)

    monkeypatch.setattr(runner.roster, "take", lambda turn, _now: [write] if turn.clients is not None else [])
    await asyncio.wait_for(written.wait(), LIMIT_S)
