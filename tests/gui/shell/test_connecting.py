import asyncio

from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from soulsgui.gui.connection_state import ConnectionState
from tests.end_to_end.server import RunningServer
from tests.gui.shell.conftest import folders_below
from tests.gui.shell.driving import connected_feed


def test_a_feed_finds_its_runner_and_carries_commands(
    qapp: QApplication, qtbot: QtBot, qt_loop: asyncio.AbstractEventLoop, server: RunningServer
) -> None:
    with connected_feed(qapp, folders_below(server.folder)) as feed:
        assert feed.connection.state is ConnectionState.NO_RUN
        assert feed.hello is not None
        assert feed.hello.pid == server.process.pid
        call = feed.call("config.presets")
        with qtbot.waitSignal(call.done) as answered:
            pass
        assert "cartpole_ppo" in {preset["name"] for preset in answered.args[0]["presets"]}
