"""Opens connections to a port without end, from several addresses, and says nothing or half a word; a script.

Its arguments: host, port, connections a second, addresses. It says `begun` when it has begun.
"""

import contextlib
import socket
import sys
import time
from collections import deque

KEPT_S = 6.0
MOST = 15_000
HALF_A_WORD = b"\x16\x03\x01"  # how a client's first words in TLS begin


def main() -> None:
    host, port, rate, addresses = sys.argv[1], *map(int, sys.argv[2:])
    opened: deque[tuple[float, socket.socket]] = deque()
    began, made = time.monotonic(), 0
    sys.stdout.write("begun\n")
    sys.stdout.flush()
    while True:
        now = time.monotonic()
        while made < (now - began) * rate:
            made += 1
            with contextlib.suppress(OSError):
                one = socket.socket()
                one.bind((f"127.0.1.{made % addresses + 1}", 0))
                one.setblocking(False)
                opened.append((now, one))
                one.connect_ex((host, port))
                if made % 2:
                    one.send(HALF_A_WORD)
        while opened and (now - opened[0][0] > KEPT_S or len(opened) > MOST):
            opened.popleft()[1].close()
        time.sleep(0.005)


if __name__ == "__main__":
    main()
