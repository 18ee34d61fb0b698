"""A worker process on its own: what becomes of it when nobody hears it any more."""

import json
import os
import subprocess

from soulsgui.process import child_env, own_command
from soulsgui.sampling.worker import send

ENDS_WITHIN_S = 60.0


def test_a_worker_that_hangs_ends_also_when_its_client_is_gone() -> None:
    process = subprocess.Popen(
        own_command("worker"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | child_env()
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with process.stdin:
            process.stdout.close()
            env = ("tests.sampling.hanging_toy:ToysHangs-v0", {}, [])
            send(process.stdin, {"env": json.dumps(env), "num_envs": 1, "hang_s": 0.5})  # type: ignore[arg-type]
            assert process.wait(ENDS_WITHIN_S) == 1
    finally:
        process.kill()
        process.wait()
