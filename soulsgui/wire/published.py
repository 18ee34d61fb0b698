"""What is known of the weights that stand on the server."""

import logging

import redis

from soulsgui.wire.codec import HEADER_BYTES, CodecError, WeightsHeader, read_header
from soulsgui.wire.keys import Keys

logger = logging.getLogger(__name__)


def published_header(connection: redis.Redis, keys: Keys, run_id: str) -> WeightsHeader | None:
    """Return their header, None when there are none of this run."""
    head = connection.getrange(keys.weights, 0, HEADER_BYTES - 1)
    try:
        header = read_header(head) if isinstance(head, bytes) and head else None
    except CodecError as error:
        logger.warning("weights are passed over: %s", error)
        return None
    return header if header is not None and header.run_id == run_id else None
