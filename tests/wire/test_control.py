"""The table of commands: everything that is made from it is up to date."""

from collections.abc import Iterator
from runpy import run_path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from soulsgui.config.paths import shipped
from soulsgui.runner.app import Runner
from soulsgui.runner.base import BaseRunner
from soulsgui.runner.join.app import ClientRunner
from soulsgui.wire.control import (
    COMMANDS,
    FEED_MESSAGE,
    LONGEST_NAME,
    LONGEST_NOTE,
    History,
    InvitationList,
    Job,
    SavedServer,
    ServiceStatus,
)
from soulsgui.wire.messages.node import Staleness


def test_the_reference_page_says_what_the_table_says() -> None:
    page = shipped("docs", "api.md").read_text(encoding="utf-8")
    write_api = run_path(str(shipped("packaging", "write_api.py")))
    assert page == write_api["page"](), "python packaging/write_api.py"


@pytest.mark.parametrize("runner", [Runner, ClientRunner])
def test_each_runner_carries_out_its_commands_and_answers_what_they_promise(
    runner: type[BaseRunner],
) -> None:
    ours = {name: command for name, command in COMMANDS.items() if runner.role in command.roles}
    assert runner.handlers.keys() == ours.keys()
    assert runner.checks.keys() <= ours.keys()
    for name, handler in runner.handlers.items():
        said = handler.__annotations__["return"]
        assert said is ours[name].result, name


def test_every_parameter_is_explained() -> None:
    for command in COMMANDS.values():
        for name, field in command.params.model_fields.items():
            assert field.description, f"{command.name}: {name}"


def test_no_name_or_note_is_taken_that_is_too_long_to_be_kept_whole() -> None:
    longest = {"name": LONGEST_NAME, "note": LONGEST_NOTE}
    for command in (
        "run.start",
        "runs.edit",
        "runs.import",
        "sweep.start",
        "checkpoint.save",
        "checkpoint.edit",
    ):
        params = COMMANDS[command].params
        for field in longest.keys() & params.model_fields.keys():
            with pytest.raises(ValidationError, match=f"at most {longest[field]} characters"):
                params.model_validate({field: "x" * (longest[field] + 1)})


def parts(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield everything that a JSON schema describes."""
    inner = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    if isinstance(schema, dict) and isinstance(schema.get("type"), str):
        yield schema
    for one in inner:
        yield from parts(one)


BOUNDS = {
    "array": {"maxItems", "prefixItems"},
    "integer": {"maximum", "exclusiveMaximum"},
    "object": {"maxProperties", "properties"},
}


RESULTS = [command.result for command in COMMANDS.values() if command.result is not None]


@pytest.mark.parametrize("told", [FEED_MESSAGE, Job, *dict.fromkeys(RESULTS)])
def test_no_list_and_no_whole_number_that_a_window_is_told_is_without_bounds(told: Any) -> None:
    schema = told.json_schema() if isinstance(told, TypeAdapter) else told.model_json_schema()
    for part in parts(schema):
        assert part["type"] not in BOUNDS or BOUNDS[part["type"]] & part.keys(), part


@pytest.mark.parametrize(
    "wrong",
    [
        {"value": []},
        {"update": [1, 2]},
        {"row": [2**63]},
        {"time": [2.0**63]},
        {"time": [1e300]},
        {"count": [-1]},
        {"count": [2**62]},  # with a few more of them it would be a sum beyond all numbers
    ],
)
def test_a_curve_that_can_not_be_drawn_is_no_answer(wrong: dict[str, Any]) -> None:
    whole = {key: [1] for key in ("row", "attempt", "episode", "env_steps", "count")}
    parts = {key: [1.0] for key in ("time", "value", "low", "high")}
    told = {"run_id": "r", "metric": "return", "last_row": 1} | whole | parts
    assert History.model_validate(told).row == [1]
    with pytest.raises(ValidationError):
        History.model_validate(told | wrong)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-1e999"])
def test_what_is_rounded_is_a_number_that_can_be(number: str) -> None:
    service = f'{{"name": "trainer", "kind": "trainer", "state": "backoff", "restart_in_s": {number}}}'
    job = f'{{"id": "1", "command": "runs.export", "state": "running", "part": {number}}}'
    assert (ServiceStatus.read(service), Job.read(job)) == (None, None)


def test_a_saved_server_is_somewhere() -> None:
    told = {"server_id": "s", "server_name": "atelier", "client": "pc", "created": 1.0}
    assert SavedServer.model_validate(told | {"addresses": [("10.0.0.1", 1)]}).client == "pc"
    with pytest.raises(ValidationError):
        SavedServer.model_validate(told | {"addresses": []})


def test_the_ages_of_samples_have_bounds_and_ports_are_ports() -> None:
    assert Staleness.read('{"bounds": [], "accepted": [1]}') is None
    assert InvitationList.read('{"lan": true, "port": 65536, "addresses": [], "invitations": []}') is None
