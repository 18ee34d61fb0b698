"""Every error as the answer of the API, and jobs."""

import pytest
import redis
from pydantic import ValidationError

from soulsgui.config.errors import ConfigError, Problem
from soulsgui.errors import (
    CheckpointError,
    EnvironmentCheckError,
    NoCheckpointError,
    NotAllowedError,
    ServerUnreachableError,
    UsageError,
)
from soulsgui.runner.api.server import Jobs
from soulsgui.runner.refusal import Refused, as_api_error
from soulsgui.wire.control import ClientCount, ErrorCode, Job, LocalClientsParams, RunsEditParams


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Refused(ErrorCode.NOT_FOUND, "m", "r"), "not_found"),
        (ConfigError([Problem("--set", None, "sed", None, "is not a setting.")]), "bad_config"),
        (EnvironmentCheckError("m", "r"), "bad_config"),
        (UsageError("m", "r"), "bad_request"),
        (NotAllowedError("m", "r"), "not_allowed"),
        (ServerUnreachableError("m", "r"), "no_answer"),
        (CheckpointError("m", "r"), "failed"),
        (NoCheckpointError("m", "r"), "not_found"),
        (redis.ConnectionError("gone"), "no_answer"),
        (redis.ResponseError("OOM"), "no_answer"),
        (redis.ResponseError("MISCONF Errors writing to the AOF file"), "no_answer"),
        (PermissionError("runs"), "failed"),
    ],
)
def test_errors_have_codes(error: Exception, code: str) -> None:
    found = as_api_error(error, "run.start")
    assert found.code == code
    assert found.message


def test_wrong_parameters_are_named_with_their_reasons() -> None:
    with pytest.raises(ValidationError) as wrong:
        LocalClientsParams.model_validate({"count": 5000, "color": 1})
    found = as_api_error(wrong.value, "service.local_clients")
    assert found.code == "bad_request"
    assert "count: should be less than or equal to 1024" in found.message
    assert "color: Extra inputs" in found.message


@pytest.mark.allow_warnings
def test_error_nobody_foresaw_is_told_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    found = as_api_error(ZeroDivisionError("by zero"), "run.start")
    assert found.code == "failed"
    assert "ZeroDivisionError" in found.message
    assert "Traceback" in caplog.text or caplog.records[0].exc_info


async def test_job_is_seen_while_it_runs_and_with_its_end() -> None:
    seen: list[Job] = []
    jobs = Jobs(seen.append)

    async def work() -> ClientCount:
        assert seen[-1].state == "running"
        return ClientCount(count=1)

    assert await jobs.run("run.stop", work(), "saving") == ClientCount(count=1)
    assert [(job.state, job.progress, job.result) for job in seen] == [
        ("running", "saving", {}),
        ("done", "saving", {"count": 1}),
    ]
    assert jobs.get(seen[0].id) == seen[-1]


async def test_failed_job_keeps_the_reason_and_old_ones_are_forgotten() -> None:
    seen: list[Job] = []
    jobs = Jobs(seen.append)

    async def fail() -> None:
        raise Refused(ErrorCode.NOT_NOW, "not now")

    with pytest.raises(Refused):
        await jobs.run("run.stop", fail())
    assert seen[-1].state == "failed"
    assert seen[-1].error is not None
    assert seen[-1].error.message == "not now"
    for _ in range(100):
        with pytest.raises(Refused):
            await jobs.run("run.stop", fail())
    assert jobs.get(seen[0].id) is None
    assert jobs.get(seen[-1].id) == seen[-1]


@pytest.mark.parametrize(
    ("error", "what", "remedy"),
    [
        (redis.ResponseError("MISCONF Errors writing to the AOF file"), "disk is full", "Free some space"),
        (
            redis.ResponseError("Command # 1 (SET) of pipeline caused error: MISCONF x"),
            "disk is full",
            "Free",
        ),
        (redis.OutOfMemoryError("command not allowed"), "memory is full", "redis.max_memory"),
    ],
)
def test_server_without_room_is_told_as_such(error: Exception, what: str, remedy: str) -> None:
    found = as_api_error(error, "run.start")
    assert what in found.message
    assert remedy in found.remedy


@pytest.mark.parametrize(
    "params",
    [
        {"run": "latest", "note": "\ud800"},
        {"run": "latest", "\udfff": "x"},
        {"run": "latest", "name": ["deep", {"er": "\udce9"}]},
    ],
)
def test_text_that_no_file_can_hold_is_refused(params: dict[str, object]) -> None:
    with pytest.raises(ValidationError) as wrong:
        RunsEditParams.model_validate(params)
    answer = as_api_error(wrong.value, "runs.edit")
    assert "no valid text" in answer.message
    assert answer.to_json()
