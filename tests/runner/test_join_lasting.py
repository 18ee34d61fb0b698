"""Which changes of a client's state get a line in the terminal."""

from soulsgui.runner.join.lasting import Lasting


def test_a_wait_between_rounds_is_no_news_and_one_that_lasts_is() -> None:
    told = Lasting("left")
    assert told.is_news("online CartPole-v1", 0.0)
    for now in range(1, 100):
        assert not told.is_news("waiting CartPole-v1" if now % 2 else "online CartPole-v1", float(now))
    assert not told.is_news("waiting CartPole-v1", 101.0)
    assert told.is_news("waiting CartPole-v1", 106.0)
    assert not told.is_news("waiting CartPole-v1", 107.0)
    assert told.is_news("online CartPole-v1", 107.2)
    assert told.is_news("left", 107.3), "only waits have to last"
