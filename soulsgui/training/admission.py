"""Whether a client may play for a run, told by its hello. Pure."""

from collections.abc import Mapping

from soulsgui.wire.keys import PROTOCOL
from soulsgui.wire.messages.session import Hello
from soulsgui.wire.versions import update_needed

_SHOWN = 80


def problem_of(hello: Hello | None, client: str, contract: str, least_versions: Mapping[str, str]) -> str:
    """Return why a client can't be let in, in words; empty when it can.

    Args:
        hello: What it said, None when that can't be read.
        client: Whose stream it came on.
        contract: Contract hash of the run.
        least_versions: Oldest version of each package that a client may run.
    """
    if hello is None:
        return "its hello can't be read"
    if hello.client != client:
        return f"it calls itself {hello.client[:_SHOWN]!r}"
    if old := update_needed(hello.versions, least_versions):
        return old
    if hello.protocol != PROTOCOL:
        return f"it speaks protocol {hello.protocol}, this server {PROTOCOL}"
    if hello.contract != contract:
        return "its environment, wrappers or spaces differ from this run's"
    return ""
