from soulsgui.gui.settings_form.edits import Edits
from soulsgui.gui.settings_form.spec import specs


def test_a_draft_from_elsewhere_is_what_is_unsaved() -> None:
    edits = Edits({"ppo.epochs": 10}, {"seed": 3, "ppo.gamma": 0.9})
    edits.type("ppo.clip", 0.3)
    edits.take({"seed": 3, "ppo.epochs": 4, "network.hidden_sizes": [8]})
    assert edits.value("ppo.epochs") == 4
    assert {key for key in specs() if edits.unsaved(key)} == {
        "ppo.gamma",
        "ppo.epochs",
        "network.hidden_sizes",
    }
    assert edits.own == {"seed": 3, "ppo.epochs": 4, "network.hidden_sizes": (8,)}


def test_what_is_wrong_in_a_draft_is_named_and_kept() -> None:
    edits = Edits({}, {})
    edits.take({"ppo.gamma": 7, "not.a.setting": 1})
    assert set(edits.problems) == {"ppo.gamma"}
    assert edits.own == {"ppo.gamma": 7}
