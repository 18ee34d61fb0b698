"""Whether a client may play for a run, told by its hello. Pure."""

from soulsgui.wire.keys import PROTOCOL
from soulsgui.wire.messages.session import Hello

_SHOWN = 80


def problem_of(hello: Hello | None, client: str, contract: str) -> str:
    """Return why a client can't be let in, in words; empty when it can.

    Args:
        hello: What it said, None when that can't be read.
        client: Whose stream it came on.
        contract: Contract hash of the run.
    """
    if hello is None:
        return "its hello can't be read"
    if hello.client != client:
        return f"it calls itself {hello.client[:_SHOWN]!r}"
    if hello.protocol != PROTOCOL:
        return f"it speaks protocol {hello.protocol}, this server {PROTOCOL}"
    if hello.contract != contract:
        return "its environment, wrappers or spaces differ from this run's"
    return ""
