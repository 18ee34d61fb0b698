"""The thread that keeps a key up to date."""

import pytest
import redis

from soulsgui.wire.beacon import Beacon
from soulsgui.wire.connection import Address
from tests.faults.waiting import until


@pytest.mark.allow_warnings
def test_what_could_not_be_told_once_is_told_the_next_time(
    redis_address: Address, redis_client: redis.Redis
) -> None:
    calls = 0

    def content() -> str:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise RuntimeError("a defect")
        return str(calls)

    key = f"{redis_address.prefix}state"
    beacon = Beacon(redis_address, "beacon", key, 0.01, content)
    beacon.start()
    try:
        until(lambda: int(redis_client.get(key) or 0) >= 3, "it tells again")
    finally:
        beacon.close()
