from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from soulsgui.gui.theme import Theme
from soulsgui.gui.widgets.inputs import PresetBox
from soulsgui.wire.control import Preset

PRESETS = [
    Preset(name=name, title=name.upper(), about=f"About {name}.", values={"env.id": env})
    for name, env in (("a", "CartPole-v1"), ("b", "LunarLander-v3"), ("c", "CartPole-v1"))
]


def test_presets_stand_under_their_tasks_which_can_not_be_chosen(qtbot: QtBot, theme: Theme) -> None:
    box = PresetBox("None")
    qtbot.addWidget(box)
    box.offer(PRESETS[:1])
    box.offer(PRESETS)
    texts = [box.itemText(place) for place in range(box.count())]
    assert texts == ["None", "CartPole", "A", "C", "LunarLander", "B"]
    assert box.itemData(box.findData("b"), Qt.ItemDataRole.ToolTipRole) == "About b."
    assert box.findData("") == 0
    chosen = [box.currentText()]
    for _ in range(4):
        qtbot.keyClick(box, Qt.Key.Key_Down)
        chosen.append(box.currentText())
    assert chosen == ["None", "A", "C", "B", "B"]
