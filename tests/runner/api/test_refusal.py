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
from soulsgui.runner.refusal import Refused, as_api_error
from soulsgui.wire.control import ErrorCode, RunsEditParams

IN_A_PIPELINE = "# 1 (SET) of pipeline caused error: MISCONF x"


@pytest.mark.parametrize(
    ("error", "code", "what", "remedy"),
    [
        (Refused(ErrorCode.NOT_FOUND, "m", "r"), "not_found", "m", "r"),
        (ConfigError([Problem("--set", None, "sed", None, "is not a setting.")]), "bad_config", "sed", ""),
        (EnvironmentCheckError("m", "r"), "bad_config", "m", "r"),
        (UsageError("m", "r"), "bad_request", "m", "r"),
        (NotAllowedError("m", "r"), "not_allowed", "m", "r"),
        (ServerUnreachableError("m", "r"), "no_answer", "m", "r"),
        (CheckpointError("m", "r"), "failed", "m", "r"),
        (NoCheckpointError("m", "r"), "not_found", "m", "r"),
        (redis.ConnectionError("gone"), "no_answer", "", ""),
        (redis.ResponseError("OOM"), "no_answer", "", ""),
        (redis.ResponseError("MISCONF Errors writing"), "no_answer", "disk is full", "Free some space"),
        (redis.ResponseError(IN_A_PIPELINE), "no_answer", "disk is full", "Free"),
        (redis.OutOfMemoryError("not allowed"), "no_answer", "memory is full", "redis.max_memory"),
        (PermissionError("runs"), "failed", "runs", ""),
    ],
)
def test_errors_have_codes_and_say_what_to_do(error: Exception, code: str, what: str, remedy: str) -> None:
    found = as_api_error(error, "run.start")
    assert found.code == code
    assert found.message
    assert what in found.message
    assert "run.start" not in found.message, "a sentence for those who clicked a button"
    assert remedy in found.remedy


@pytest.mark.parametrize(
    "params", [{"note": "\ud800"}, {"\udfff": "x"}, {"name": ["deep", {"er": "\udce9"}]}], ids=ascii
)
def test_text_that_no_file_can_hold_is_refused(params: dict[str, object]) -> None:
    with pytest.raises(ValidationError) as wrong:
        RunsEditParams.model_validate({"run": "latest"} | params)
    answer = as_api_error(wrong.value, "runs.edit")
    assert "not valid text" in answer.message
    assert answer.to_json()
