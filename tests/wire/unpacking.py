"""One chunk opened on its own, as those of a run are opened together."""

from typing import Any

from soulsgui.wire.messages.chunk import Segments
from soulsgui.wire.messages.chunk_form import ChunkForm


def unpack_chunk(data: bytes, *form: Any, **more: Any) -> Segments:
    """Return the segments of one chunk.

    Args:
        data: The chunk.
        *form: What chunks look like, as `ChunkForm` takes it.
        **more: Likewise.

    Raises:
        ChunkError: With the reason.
    """
    opened = ChunkForm(*form, **more).open([data])
    if opened.errors:
        raise opened.errors[0]
    return opened.segments
