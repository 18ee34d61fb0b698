"""A gateway in this process, in a thread of its own, before a server that listens on a socket."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from soulsgui.runner.access.certificate import ensure_certificate
from soulsgui.runner.server.gateway import Gateway
from soulsgui.system import free_port
from soulsgui.wire.connection import Address
from tests.faults.waiting import LIMIT_S, until


@contextmanager
def running_gateway(
    address: Address, server_dir: Path, lan: bool = False, public: bool = False
) -> Iterator[Gateway]:
    """Run the gateway of a server at its port until the block ends."""
    stop = threading.Event()
    gateway = Gateway(address, server_dir, lan, public)
    thread = threading.Thread(target=lambda: asyncio.run(gateway.run(stop)), name="gateway")
    thread.start()
    try:
        until(lambda: not thread.is_alive() or _answers(address), "the gateway listens", every_s=0.01)
        yield gateway
    finally:
        stop.set()
        thread.join()


def _answers(address: Address) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in address.host else socket.AF_INET) as tried:
        return tried.connect_ex((address.host, address.port)) == 0


@contextmanager
def way_in(address: Address, folder: Path) -> Iterator[Address]:
    """Run a gateway at a free port before a server; return its address, as clients know it."""
    inside = replace(address, port=free_port(), socket=str(folder / "redis.sock"))
    pin = ensure_certificate(folder).pin
    with running_gateway(inside, folder):
        yield replace(inside, socket="", pin=pin, password="")


def knock(outside: Address) -> ssl.SSLSocket:
    """Connect to a gateway, whoever that is, and say nothing yet."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(socket.create_connection((outside.host, outside.port), LIMIT_S))
