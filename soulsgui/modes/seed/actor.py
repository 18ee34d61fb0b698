"""Environments of a Python program that ask an inference server; nothing here needs torch."""

from soulsgui.sampling.client import ClientOptions, run_client
from soulsgui.wire.access import Address
from soulsgui.wire.keys import check_client_name


class Actor:
    """Environments that ask an inference server, stepped side by side.

    Args:
        address: The server that the trainer uses.
        threads: How many environments.
        name: What it is called there; each has a name of its own.
    """

    def __init__(self, address: Address, threads: int, name: str) -> None:
        self.name = check_client_name(name)
        self._address, self._threads = address, threads

    def run(self) -> None:
        """Play in the main thread of this process, until it is asked to stop."""
        run_client(self._address, self.name, ClientOptions(num_envs=self._threads, inference="server"))
