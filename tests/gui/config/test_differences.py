from soulsgui.gui.config.differences import COLUMNS, YOURS, differences, differing_keys, effect_sentence
from soulsgui.gui.models.records import RecordsModel
from soulsgui.gui.settings.spec import specs

SHIPPED = {key: spec.info.default for key, spec in specs().items()}
PRESET = {"ppo.epochs": 3, "network.hidden_sizes": [8, 8], "env.id": "CartPole-v1"}


def test_only_what_is_not_the_same_everywhere_is_listed() -> None:
    mine = {"seed": 9, "ppo.epochs": 5}
    found = differences(SHIPPED, PRESET, "small", mine, {"ppo.epochs": 5}, SHIPPED | {"ppo.epochs": 5})
    assert {one.spec.key: (one.origin, one.unsaved, one.running_differs) for one in found} == {
        "seed": (YOURS, True, True),
        "ppo.epochs": (YOURS, False, False),
        "network.hidden_sizes": ("small", False, True),
    }
    (gone,) = differences(SHIPPED, {}, "", {}, {"seed": 3}, {})
    assert (gone.spec.key, gone.planned, gone.unsaved) == ("seed", SHIPPED["seed"], True)
    assert not gone.has_running
    (running,) = differences(SHIPPED, {}, "", {}, {}, SHIPPED | {"seed": 5})
    assert (running.spec.key, running.running, running.unsaved) == ("seed", 5, False)
    assert running.running_differs
    lists = {"network.hidden_sizes": [64, 64]}
    assert differences(SHIPPED, {}, "", lists, lists, {}) == [], "the shipped value is a tuple"


def test_settings_that_win_over_a_preset() -> None:
    mine = {"ppo.epochs": 5, "network.hidden_sizes": (8, 8), "seed": 2}
    assert differing_keys(PRESET, mine) == ["ppo.epochs"]


def test_values_stand_in_the_table_as_yaml_has_them() -> None:
    mine = {"normalize.observations": False, "ppo.n_clients": 3, "env.kwargs": {"wind": True}, "seed": 3}
    model = RecordsModel(COLUMNS, lambda one: one.spec.key)
    model.replace(differences(SHIPPED, {}, "", mine, {**mine, "seed": 9}, SHIPPED))
    columns = [model.column_number(name) for name in ("shipped", "planned", "running")]
    shown = {
        model.name_at(row): [model.index(row, column).data() for column in columns]
        for row in range(model.rowCount())
    }
    assert shown == {
        "normalize.observations": ["true", "false", "true"],
        "ppo.n_clients": ["none", "3", "none"],
        "env.kwargs": ["{}", "{wind: true}", "{}"],
        "seed": [str(SHIPPED["seed"]), "3 (not saved)", str(SHIPPED["seed"])],
    }


def test_when_saved_changes_take_effect() -> None:
    sentence = effect_sentence(["redis.port", "env.id", "stop.window", "unknown"])
    assert "server restart: redis.port." in sentence
    assert "with a new run: env.id, stop.window." in sentence
    assert "`soulsgui run resume --set`: stop.window." in sentence
