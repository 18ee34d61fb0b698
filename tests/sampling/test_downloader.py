"""Weights arrive whole, whatever their size was before, and in one answer where their size is known."""

from typing import Any

import numpy as np
import pytest
import redis

from soulsgui.sampling.downloader import Downloader, ServerView
from soulsgui.training.publisher import Publisher, TrainingPosition
from soulsgui.wire.connection import Address
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.server_config import ServerConfig

CONFIG = ServerConfig(run_id="r", attempt=1, contract="c", spaces={}, policy={})


def test_weights_arrive_whole_and_large_ones_in_one_answer_once_their_size_is_known(
    redis_client: redis.Redis, keys: Keys, redis_address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher, views = Publisher(keys, CONFIG), list[ServerView]()
    downloader = Downloader(redis_address, "c", views.append, lambda: None)
    asked_again = []
    ask = downloader._link.redis.getrange

    def watched(*what: Any) -> Any:
        asked_again.append(len(views) + 1)
        return ask(*what)

    monkeypatch.setattr(downloader._link.redis, "getrange", watched)
    for model_id, floats in enumerate((100, 100_000, 100_000, 100_100, 300_000, 1_500_000, 1_500_000, 10), 1):
        sent = np.arange(floats, dtype=np.float32)
        publisher.prepare(TrainingPosition(model_id, 0, 0, 0), {"w": sent})
        publisher.publish(redis_client, {})
        downloader._look(noticed=True)
        header, tensors = views[-1].header, views[-1].tensors
        assert header.model_id == model_id
        np.testing.assert_array_equal(tensors["w"], sent)
    downloader.close()
    assert asked_again == [2, 5, 6, 7], "grown by far, or too large to be sent twice for nothing"
