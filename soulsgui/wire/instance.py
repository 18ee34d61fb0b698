"""Which process this is, as others see it in hellos, beats and node states."""

import os
import socket

from soulsgui.errors import SoulsGuiError
from soulsgui.system import process_identity
from soulsgui.wire.messages.base import Instance


def own_instance() -> Instance:
    """Return what tells this process from every other one.

    Raises:
        SoulsGuiError: The system does not tell a process about itself.
    """
    identity = process_identity(os.getpid())
    if identity is None:
        raise SoulsGuiError("This system hides processes from themselves: no identity can be made.")
    return Instance(
        host=socket.gethostname(),
        boot_id=identity["boot_id"],
        pid=identity["pid"],
        start_time=identity["start_time"],
    )
