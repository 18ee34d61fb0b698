"""The table of commands: everything that is made from it is up to date."""

from runpy import run_path

import pytest
from pydantic import ValidationError

from soulsgui.config.paths import shipped
from soulsgui.runner.app import Runner
from soulsgui.runner.base import BaseRunner
from soulsgui.runner.join.app import ClientRunner
from soulsgui.wire.control import COMMANDS, LONGEST_NAME, LONGEST_NOTE


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
