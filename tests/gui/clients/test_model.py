import time

import pytest
from PySide6.QtCore import QModelIndex, Qt
from pytestqt.modeltest import ModelTester
from pytestqt.qtbot import QtBot

from soulsgui.gui.clients.model import CLIENT_ROLE, ClientsModel
from soulsgui.gui.theme import Theme
from soulsgui.gui.widgets.table import Table
from soulsgui.wire.control import ClientStatus


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def model(clock: Clock, theme: Theme, qtmodeltester: ModelTester) -> ClientsModel:
    made = ClientsModel(clock=clock)
    qtmodeltester.check(made)
    return made


def client(number: int, **fields: object) -> ClientStatus:
    given = {"id": f"c{number}", "name": f"gamer-{number}", "state": "online", "age_s": 0.5} | fields
    return ClientStatus.model_validate(given)


def column(model: ClientsModel, name: str) -> list[str]:
    place = model.column_number(name)
    return [model.index(row, place).data() for row in range(model.rowCount())]


def sort(model: ClientsModel, name: str, downwards: bool = False) -> None:
    order = Qt.SortOrder.DescendingOrder if downwards else Qt.SortOrder.AscendingOrder
    model.sort(model.column_number(name), order)


def test_changes_are_shown_at_the_next_tick(model: ClientsModel) -> None:
    model.replace([client(1)])
    assert model.rowCount() == 0
    model.tick()
    assert column(model, "name") == ["gamer-1"]


def test_names_are_sorted_by_their_numbers(model: ClientsModel) -> None:
    model.replace([client(10), client(9), client(100), client(1)])
    sort(model, "name")
    model.tick()
    assert column(model, "name") == ["gamer-1", "gamer-9", "gamer-10", "gamer-100"]


@pytest.mark.parametrize(
    ("name", "downwards", "order"),
    [
        ("mean", True, ["c3", "c1", "c2"]),
        ("mean", False, ["c2", "c1", "c3"]),
        ("episodes", True, ["c2", "c1", "c3"]),
        ("state", False, ["c3", "c2", "c1"]),
        ("age", True, ["c1", "c2", "c3"]),
    ],
)
def test_rows_are_sorted_in_the_model(
    model: ClientsModel, name: str, downwards: bool, order: list[str]
) -> None:
    model.replace(
        [
            client(1, mean_return=20.0, episodes=5, age_s=0.1),
            client(2, mean_return=None, episodes=9, state="late", age_s=9.0),
            client(3, mean_return=31.5, episodes=1, state="lost", age_s=60.0),
        ]
    )
    sort(model, name, downwards)
    model.tick()
    assert [model.index(row, 0).data(CLIENT_ROLE) for row in range(3)] == order


def test_equal_rows_stay_in_the_order_of_their_names(model: ClientsModel) -> None:
    model.replace([client(number, episodes=7) for number in (5, 3, 4, 1, 2)])
    sort(model, "episodes", downwards=True)
    model.tick()
    assert column(model, "name") == [f"gamer-{n}" for n in (1, 2, 3, 4, 5)]


def test_one_tick_announces_one_range(model: ClientsModel, qtbot: QtBot) -> None:
    model.replace([client(n) for n in range(50)])
    model.tick()
    announced: list[tuple[int, int]] = []
    model.dataChanged.connect(lambda first, last, roles: announced.append((first.row(), last.row())))
    model.apply([client(n, episodes=n) for n in range(0, 50, 3)])
    model.tick()
    assert announced == [(0, 49)]


def test_ages_go_on_by_our_own_clock_between_two_messages(model: ClientsModel, clock: Clock) -> None:
    model.replace([client(1, age_s=0.6), client(2, age_s=None)])
    sort(model, "name")
    model.tick()
    assert column(model, "age") == ["0.6 s", "—"]
    clock.now += 3.0
    model.tick()
    assert column(model, "age") == ["3.6 s", "—"]
    model.apply([client(1, age_s=0.2)])
    model.tick()
    assert column(model, "age") == ["0.2 s", "—"]


def test_a_client_that_was_forgotten_leaves_and_a_new_one_comes(model: ClientsModel) -> None:
    model.replace([client(n) for n in range(6)])
    sort(model, "name")
    model.tick()
    model.apply([client(9)], removed=["c0", "c2", "c3"])
    model.tick()
    assert column(model, "name") == ["gamer-1", "gamer-4", "gamer-5", "gamer-9"]
    assert model.total == 4


def test_between_removal_and_tick_a_row_is_empty_not_wrong(model: ClientsModel) -> None:
    model.replace([client(1), client(2)])
    sort(model, "name")
    model.tick()
    model.apply([], removed=["c1"])
    assert model.index(0, 1).data() is None
    assert model.client_at(0) is None
    assert model.client_at(7) is None


def test_a_snapshot_replaces_everything(model: ClientsModel) -> None:
    model.replace([client(1), client(2)])
    model.tick()
    model.replace([client(2), client(3)])
    sort(model, "name")
    model.tick()
    assert column(model, "name") == ["gamer-2", "gamer-3"]


def test_a_renamed_client_moves_to_its_place(model: ClientsModel) -> None:
    model.replace([client(1), client(2)])
    sort(model, "name")
    model.tick()
    model.apply([client(1, name="zoe")])
    model.tick()
    assert column(model, "name") == ["gamer-2", "zoe"]


@pytest.mark.parametrize(
    ("words", "left"),
    [
        ("gamer-2", ["c2"]),
        ("LATE", ["c1"]),
        ("10.0.0.3", ["c3"]),
        ("no module", ["c2"]),
        ("", ["c1", "c2", "c3"]),
    ],
)
def test_the_filter_looks_at_name_host_state_and_error(
    model: ClientsModel, words: str, left: list[str]
) -> None:
    model.replace(
        [
            client(1, state="late"),
            client(2, error="No module named Box2D"),
            client(3, host="10.0.0.3"),
        ]
    )
    sort(model, "name")
    model.set_filter(words)
    assert [model.index(row, 0).data(CLIENT_ROLE) for row in range(model.rowCount())] == left
    assert model.total == 3


def test_the_selection_stays_with_its_clients_when_rows_move(model: ClientsModel, qtbot: QtBot) -> None:
    table = Table("clients", "Clients")
    qtbot.addWidget(table)
    model.replace([client(n, episodes=n) for n in range(20)])
    table.setModel(model)
    table.sort_by(model.column_number("episodes"))
    model.tick()
    for row in (4, 5, 11):
        index = model.index(row, 0)
        mode = table.selectionModel().SelectionFlag
        table.selectionModel().select(index, mode.Select | mode.Rows)
    chosen = selected(table)
    assert chosen == {"c4", "c5", "c11"}
    model.apply([client(n, episodes=100 - n) for n in range(20)])
    model.tick()
    assert selected(table) == chosen
    model.apply([client(99, episodes=0)], removed=["c7"])
    model.tick()
    assert selected(table) == chosen


def selected(table: Table) -> set[str]:
    return {index.data(CLIENT_ROLE) for index in table.selectionModel().selectedRows()}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"state": "online"}, "Online"),
        ({"state": "online", "stalled": True}, "Online, stalled"),
        ({"state": "lost", "age_s": 3.5 * 86_400, "wish": "pause"}, "Lost for 3 d, will pause when back"),
        ({"state": "joining", "age_s": None, "invited": 1.0}, "Invited, never seen"),
        (
            {"state": "joining", "age_s": None, "invited": 1.0, "invited_again": True},
            "Invited again, not yet seen",
        ),
        ({"state": "joining", "age_s": None, "local": True}, "Joining"),
        ({"state": "left", "wish": "stop"}, "Left, will stop when back"),
        ({"state": "online", "wish": "pause"}, "Online"),
        ({"state": "paused", "wish": "pause"}, "Paused"),
        ({"state": "paused"}, "Paused there"),
        ({"state": "draining"}, "Finishing"),
    ],
)
def test_the_state_says_what_is_still_to_come(
    model: ClientsModel, fields: dict[str, object], words: str
) -> None:
    model.replace([client(1, **fields)])
    model.tick()
    assert column(model, "state") == [words]


@pytest.mark.parametrize(
    ("name", "fields", "shown"),
    [
        ("env", {"env_id": "CartPole-v1", "num_envs": 4}, "CartPole-v1 × 4"),
        ("env", {}, "—"),
        ("last", {"last_return": 31.42}, "31.4"),
        ("rate", {"env_steps_per_s": 0.0}, "—"),
        ("waits", {"waiting": 0.0}, "—"),
        ("waits", {"waiting": 0.38}, "38 %"),
        ("rate", {"env_steps_per_s": 12_345.0}, "12.3 k"),
        ("lag", {"lag": None}, "—"),
        ("rejected", {"rejected": {"late": 12, "shape": 3}}, "15"),
        ("host", {}, "—"),
    ],
)
def test_cells_are_written_for_people(
    model: ClientsModel, name: str, fields: dict[str, object], shown: str
) -> None:
    model.replace([client(1, **fields)])
    model.tick()
    assert column(model, name) == [shown]


def test_reasons_of_rejections_stand_in_the_tooltip(model: ClientsModel) -> None:
    model.replace([client(1, rejected={"late": 12, "shape": 3})])
    model.tick()
    cell = model.index(0, model.column_number("rejected"))
    assert cell.data(Qt.ItemDataRole.ToolTipRole) == "12 late, 3 shape"


def test_an_unknown_column_is_an_error(model: ClientsModel) -> None:
    with pytest.raises(KeyError):
        model.column_number("colour of the eyes")


def test_ten_thousand_clients_tick_in_time(theme: Theme, qtbot: QtBot) -> None:
    model = ClientsModel()
    table = Table("clients", "Clients")
    qtbot.addWidget(table)
    table.setModel(model)
    table.sort_by(model.column_number("mean"), downwards=True)
    table.resize(1200, 600)
    table.show()
    rounds = [[client(n, mean_return=(n * 7919 + k) % 10_007) for n in range(10_000)] for k in range(3)]
    model.replace(rounds[0])
    model.tick()

    def tick(changed: list[ClientStatus]) -> float:
        begin = time.perf_counter()
        model.apply(changed)
        model.tick()
        return time.perf_counter() - begin

    times = [tick(changed) for changed in rounds[1:] * 2]
    # 15 ms measured on two cores; the bound only tells it from a proxy model, which takes 4 to 9 s.
    assert min(times) < 1.0
    assert table.model().index(0, 0, QModelIndex()).isValid()
