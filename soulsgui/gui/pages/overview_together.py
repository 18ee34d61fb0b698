"""Several calls as one: a button acts on all chosen clients."""

from collections.abc import Sequence

from soulsgui.gui.calls import Call
from soulsgui.wire.control import ApiError

_MARGIN_S = 60.0


def together(calls: Sequence[Call]) -> Call:
    """Return a call that is done when all of these are, and failed when one of them is.

    Args:
        calls: At least one.
    """
    if len(calls) == 1:
        return calls[0]
    # It waits longer than any of them, whose own silence it passes on.
    whole = Call(calls[0].command, calls[0].server, _MARGIN_S)
    left = list(calls)
    first: list[ApiError] = []

    def over(call: Call) -> None:
        left.remove(call)
        if not left and first:
            whole.refuse(first[0])
        elif not left:
            whole.answer({})

    def failed(call: Call, error: ApiError) -> None:
        first.append(error)
        over(call)

    for call in calls:
        call.done.connect(lambda _, call=call: over(call))
        call.failed.connect(lambda error, call=call: failed(call, error))
        call.silent.connect(whole.silent)
    return whole
