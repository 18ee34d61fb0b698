"""Pictures of an evaluation: how many are kept, how long each is shown, when more are wanted."""

from soulsgui.gui.watching.recording import Recording
from soulsgui.wire.control import Picture


def picture(step: int, episode: int = 0, jpeg: str = "AAAA") -> Picture:
    return Picture(rate=50.0, episode=episode, step=step, return_so_far=0.0, jpeg=jpeg)


def recorded(*pictures: Picture, most: int = 100) -> Recording:
    made = Recording(most_pictures=most, most_characters=1000)
    for one in pictures:
        made.add(one)
    return made


def test_each_picture_stays_for_the_steps_until_the_next_one() -> None:
    found = recorded(picture(0), picture(2), picture(900), picture(0, episode=1))
    stays = []
    for place in range(4):
        found.go_to(place)
        stays.append(found.stays_s)
    # Of steps that took long nobody is made to wait for all.
    assert stays == [0.04, 2.0, 0.8, None]
    assert Recording().stays_s is None


def test_the_oldest_pictures_go_and_the_one_that_is_shown_stays() -> None:
    found = recorded(*(picture(step) for step in range(5)), most=5)
    found.go_to(3)
    found.add(picture(5))
    assert (len(found), found.shown) == (5, picture(3))
    for step in range(6, 20):
        found.add(picture(step))
    assert found.shown == picture(15)  # rested for too long: what was shown is gone
    found.add(picture(20, jpeg="A" * 990))
    assert (len(found), found.shown) == (3, picture(18))


def test_beyond_either_end_there_is_nothing_to_show() -> None:
    found = recorded(picture(0), picture(1))
    found.go_to(-3)
    assert (found.place, found.ahead) == (0, 1)
    found.go_to(9)
    assert (found.place, found.ahead) == (1, 0)
    assert recorded().shown is None


def test_more_is_wanted_until_enough_is_ahead_and_again_once_little_is_left() -> None:
    found = Recording()
    wanted = []
    for step in range(80):
        found.add(picture(step))
        wanted.append(found.wants_more())
    assert wanted == [True] * 60 + [False] * 20
    found.go_to(50)
    assert not found.wants_more()
    found.go_to(59)
    assert found.wants_more()
