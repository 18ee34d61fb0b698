import numpy as np

from soulsgui.rl.buffers.state_rows import StateRows


def test_states_stay_those_of_their_numbers_and_take_no_more_room_than_are_held() -> None:
    rows = StateRows(2)
    for number in range(1000):
        oldest = max(0, number - (150 if number < 500 else 99))
        rows.put(number, np.full(2, number, np.float32), oldest)
        held = np.arange(oldest, number + 1)
        np.testing.assert_array_equal(rows.of(held), np.stack((held, held), 1))
        assert rows.room == (64 if number < 64 else 128 if number < 128 else 256)
