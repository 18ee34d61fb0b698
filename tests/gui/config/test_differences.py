from soulsgui.gui.config.differences import YOURS, differences, effect_sentence, still_winning
from soulsgui.gui.settings.spec import specs

SHIPPED = {key: spec.info.default for key, spec in specs().items()}
PRESET = {"ppo.epochs": 3, "network.hidden_sizes": [8, 8], "env.id": "CartPole-v1"}


def test_only_what_is_not_the_same_everywhere_is_listed() -> None:
    mine = {"seed": 9, "ppo.epochs": 5}
    rows = {
        one.spec.key: one
        for one in differences(SHIPPED, PRESET, "small", mine, {"ppo.epochs": 5}, SHIPPED | {"ppo.epochs": 5})
    }
    assert set(rows) == {"seed", "ppo.epochs", "network.hidden_sizes"}
    assert (rows["seed"].origin, rows["seed"].unsaved) == (YOURS, True)
    assert (rows["ppo.epochs"].origin, rows["ppo.epochs"].unsaved) == (YOURS, False)
    assert not rows["ppo.epochs"].running_differs
    assert (rows["network.hidden_sizes"].origin, rows["network.hidden_sizes"].running_differs) == (
        "small",
        True,
    )


def test_a_value_taken_out_but_not_saved_is_listed() -> None:
    (one,) = differences(SHIPPED, {}, "", {}, {"seed": 3}, {})
    assert (one.spec.key, one.planned, one.unsaved, one.has_running) == ("seed", SHIPPED["seed"], True, False)


def test_lists_and_tuples_are_the_same_value() -> None:
    assert (
        differences(
            SHIPPED, {}, "", {"network.hidden_sizes": [64, 64]}, {"network.hidden_sizes": [64, 64]}, {}
        )
        == []
    )


def test_settings_that_win_over_a_preset() -> None:
    mine = {"ppo.epochs": 5, "network.hidden_sizes": (8, 8), "seed": 2}
    assert still_winning(PRESET, mine) == ["ppo.epochs"]


def test_when_saved_changes_take_effect() -> None:
    sentence = effect_sentence(["redis.port", "env.id", "stop.window", "unknown"])
    assert "server restart: redis.port." in sentence
    assert "with a new run: env.id, stop.window." in sentence
    assert "`soulsgui run resume --set`: stop.window." in sentence
