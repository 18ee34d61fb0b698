import json
from typing import Any

import pytest
from pydantic import ValidationError

from soulsgui.wire.messages.base import Instance, Message
from soulsgui.wire.messages.heartbeat import MAX_BYTES, Heartbeat, InferenceFigures
from soulsgui.wire.messages.metrics import (
    AttemptRow,
    CheckpointRow,
    EpisodeRows,
    UpdateRow,
    evaluation_row,
    read_row,
)
from soulsgui.wire.messages.node import NodeState
from soulsgui.wire.messages.server_config import Execution, ServerConfig, contract_hash, state_of
from soulsgui.wire.messages.session import (
    MAX_HELLO_BYTES,
    Episode,
    Grant,
    GreedyOrder,
    RoundShare,
    SessionHello,
    Wish,
)

PROCESS = Instance(host="pc", boot_id="b", pid=7, start_time=1.5)
MESSAGES: list[Message] = [
    Heartbeat(client="c", instance=PROCESS, counter=3, mean_return=1.5),
    SessionHello(client="c", instance=PROCESS, run_id="r", contract="x", num_envs=4),
    Grant(session="1-0", status="accepted", round=RoundShare(round_id=3, steps=4)),
    Wish(command_id="x", state="pause"),
    Episode(
        run_id="r", attempt=1, number=0, env_index=0, total_return=1.5, length=3, terminated=True,
        model_id=1, seconds=0.5,
    ),
    NodeState(name="trainer", instance=PROCESS, tick=1),
    ServerConfig(run_id="r", attempt=1, contract="x", spaces={"a": [1]}, policy={}),
]  # fmt: skip
ROW: dict[str, Any] = {"run_id": "r", "attempt": 1, "update": 2, "env_steps": 3, "episodes": 4}
ROW |= {"model_id": 5, "time": 6.5}


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_messages_come_back_also_from_newer_senders(message: Message) -> None:
    kind = type(message)
    assert kind.read(message.to_json()) == message
    newer = json.loads(message.to_json()) | {"something_new": [1]}
    assert kind.read(json.dumps(newer)) == message


@pytest.mark.parametrize("data", [None, b"", b"\xff\xfe", b"[]", b"{}", b"[" * 100_000, b"nul", b"1e999"])
@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_what_is_no_message_is_none(message: Message, data: bytes | None) -> None:
    assert type(message).read(data) is None


LIES = {
    "counter": ["-1", "1e300"],
    "env_steps": ["-5", str(10**400)],
    "env_steps_per_s": ["NaN"],
    "mean_return": ["Infinity"],
    "num_envs": ["-3", str(2**40)],
    "model_id": ["-2", str(2**60)],
    "sent_steps": ["-1", str(2**60)],
    "waiting": ["1.5"],
    "waited_s": ["NaN"],
    "error": [f'"{"x" * MAX_BYTES}"'],
}


@pytest.mark.parametrize("name", LIES)
def test_beats_with_impossible_numbers_are_no_beats(name: str) -> None:
    for lie in LIES[name]:
        assert Heartbeat.read(f'{MESSAGES[0].to_json()[:-1]}, "{name}": {lie}}}') is None


@pytest.mark.parametrize("epsilon", ["-0.1", "1.1", "NaN", "Infinity", "1e400"])
def test_grants_with_impossible_chances_are_no_grants(epsilon: str) -> None:
    grant = MESSAGES[2].to_json()
    assert Grant.read(grant.replace('"epsilon":null', f'"epsilon":{epsilon}')) is None
    for good in (0, 0.5, 1):
        read = Grant.read(grant.replace('"epsilon":null', f'"epsilon":{good}'))
        assert read is not None
        assert read.epsilon == good


@pytest.mark.parametrize("num_envs", [0, -1, 65_537, 10**30])
def test_hellos_with_impossible_numbers_are_no_hellos(num_envs: int) -> None:
    hello = MESSAGES[1].to_json().replace('"num_envs":4', f'"num_envs":{num_envs}')
    assert SessionHello.read(hello) is None
    too_large = MESSAGES[1].to_json().replace('"r"', f'"{"r" * MAX_HELLO_BYTES}"')
    assert SessionHello.read(too_large) is None


def test_rows_are_told_apart() -> None:
    names = ["row", "attempt", "client", "episode", "env_steps", "time", "total_return", "length"]
    columns: dict[str, Any] = {name: [] for name in [*names, "model_id", "mean_return"]}
    rows = [
        UpdateRow(**ROW, previous=1, values={"loss": 1.5}),
        AttemptRow(**ROW),
        CheckpointRow(**ROW, saved="best"),
        EpisodeRows(run_id="r", **columns),
    ]
    assert [read_row(row.to_json()) for row in rows] == rows
    assert read_row(b"{}") is None


def test_contract_is_about_what_both_must_agree_on() -> None:
    agreed: list[Any] = ["Env-v0", {"a": 1}, ["Wrapper"], {"observation": 3}, "on-policy"]
    same = contract_hash(*agreed)
    assert same == contract_hash("Env-v0", {"a": 1}, ["Wrapper"], {"observation": 3}, "on-policy")
    others = [["Env-v1"], [{"a": 2}], [[]], [{"observation": 4}], ["off-policy"]]
    for place, other in enumerate(others):
        assert contract_hash(*[*agreed[:place], *other, *agreed[place + 1 :]]) != same
    state = contract_hash(*agreed, {"hidden": (3,), "cell": (2,)})
    assert same == contract_hash(*agreed, {}) != state
    assert state == contract_hash(*agreed, {"cell": [2], "hidden": [3]})
    assert state != contract_hash(*agreed, {"hidden": (3, 1), "cell": (2,)})


def test_a_policy_says_which_state_it_remembers() -> None:
    assert state_of({"kind": "mlp"}) == {}
    assert state_of({"state": {"hidden": [3, 2], "cell": []}}) == {"hidden": (3, 2), "cell": ()}
    for wrong in ([3], {"hidden": 3}, {"hidden": ["wide"]}, {"hidden": [0]}, {"hidden": [-1]}):
        with pytest.raises(ValueError, match="state"):
            state_of({"state": wrong})


def test_words_of_clients_are_made_printable() -> None:
    beat = {
        "client": "c",
        "counter": 1,
        "instance": {"host": "h\x1b]0;title\x07"},
        "error": "bad\x1b[2J\nforged" + "x" * 2000,
        "answered": {"command_id": "1", "ok": False, "error": "\x1b"},
    }
    read = Heartbeat.read(json.dumps(beat))
    assert read is not None
    assert read.answered is not None
    shown = [read.instance.host, read.error, read.answered.error]
    assert all(text.isprintable() and len(text) <= 500 for text in shown)
    grant = Grant.read(json.dumps({"session": "1-0", "status": "refused", "reason": "\x1b[1m\n"}))
    assert grant is not None
    assert grant.reason.isprintable()


def test_the_row_of_an_evaluation_has_the_place_of_its_weights_and_the_time_given() -> None:
    order = GreedyOrder(model_id=9, count=5, attempt=2, update=7, env_steps=70, episodes=3)
    place = order.model_dump(include={"model_id", "attempt", "update", "env_steps", "episodes"})
    for attempt, previous in ((2, 6), (1, 0)):
        row = evaluation_row("r", order, (attempt, 6), {}, None, now=12.5)
        expected = UpdateRow(kind="evaluation", run_id="r", previous=previous, time=12.5, values={}, **place)
        assert row == expected


def test_an_inference_server_tells_what_half_of_its_batches_and_answers_keep_to() -> None:
    figures = InferenceFigures(clients=2)
    assert figures.words() == "2 clients"
    for actions, wait_ms in ((4, 0.2), (8, 30.0), (8, 30.0), (8, 2000.0)):
        figures.chose(actions)
        figures.took(wait_ms)
    assert figures.words() == "2 clients, batches of 8, answers within 32 ms"
    assert (figures.actions, sum(figures.rows), figures.round_trips[-1]) == (28, 4, 1)


def test_what_a_server_wants_to_run_imitates_nothing_and_hides_nothing() -> None:
    told = Execution(
        env_id="CartPole-v1 × 4; no wrappers",
        env_kwargs={"path": " " * 9000},
        env_wrappers=["FlattenObservation", "a\N{HANGUL FILLER}b", {"its:Own": {}}],
        restart_hook="its.own:start",
    )
    assert told.words() == {
        "environment": r'"CartPole-v1 \u00d7 4; no wrappers" × 1',
        "arguments": '{"path": " … (9,000 characters)"}',
        "wrappers": r'FlattenObservation, "a\u3164b", {"its:Own": {}}',
        "called when it fails": "its.own:start",
        "imported": "its, its.own",
    }


@pytest.mark.parametrize("wrapper", [None, 1.5, ["its:Own"], True])
def test_a_wrapper_is_a_name_or_a_name_with_arguments(wrapper: object) -> None:
    with pytest.raises(ValidationError):
        Execution.model_validate({"env_id": "CartPole-v1", "env_wrappers": [wrapper]})
