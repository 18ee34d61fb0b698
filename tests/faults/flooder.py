"""Fills the stream of a client as fast as it can, until it is killed; run as a script.

Its standard input tells it the address, the client and a chunk, as JSON. It says `begun` when it has begun,
and every second how many bytes were taken from it.
"""

import base64
import json
import sys
import time

import redis

from soulsgui.wire.connection import Address, connect
from soulsgui.wire.keys import Keys

AT_ONCE = 4


def main() -> None:
    told = json.loads(sys.stdin.readline())
    address, client = Address(**told["address"]), told["client"]
    keys, connection = Keys(address.prefix), connect(address)
    sys.stdout.write("begun\n")
    sys.stdout.flush()
    chunk, taken, next_word = base64.b64decode(told["chunk"]), 0, time.monotonic() + 1
    while True:
        pipeline = connection.pipeline(transaction=False)
        for _ in range(AT_ONCE):
            pipeline.xadd(keys.chunks(client), {"c": chunk})
        try:
            replies = pipeline.execute(raise_on_error=False)
        except redis.RedisError:
            replies = []
        taken += len(chunk) * sum(not isinstance(reply, Exception) for reply in replies)
        if time.monotonic() >= next_word:
            next_word += 1
            sys.stdout.write(f"{taken}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
