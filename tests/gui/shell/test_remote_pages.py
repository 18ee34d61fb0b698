"""A window over `ssh` does everything on every page: a whole run on a server of another computer."""

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

import soulsgui.gui
from soulsgui.gui.clients.invite import InviteDialog
from soulsgui.gui.clients.page import ClientsPage
from soulsgui.gui.config.new_run import NewRunDialog
from soulsgui.gui.config.page import ConfigPage
from soulsgui.gui.logs.page import LogsPage
from soulsgui.gui.models.connection import ConnectionState, RemoteServer
from soulsgui.gui.overview.page import OverviewPage
from soulsgui.gui.plots.page import PlotsPage
from soulsgui.gui.preferences import Preferences
from soulsgui.gui.runs.checkpoints import NoteDialog
from soulsgui.gui.runs.evaluate import EvaluateDialog
from soulsgui.gui.runs.models import QueuedRow
from soulsgui.gui.runs.page import RunsPage
from soulsgui.gui.text import NOTHING
from soulsgui.gui.watching.player import Player
from soulsgui.gui.widgets import message_bar
from soulsgui.wire.invitation import Invitation
from tests.end_to_end.server import RunningServer, let_play
from tests.faults.waiting import LIMIT_S
from tests.gui.config.test_running import type_in
from tests.gui.questions import answer
from tests.gui.shell.far import HOST, Far, Ssh

SETTINGS = """clients:
  local: 1
client:
  step_seconds: 0.008
ppo:
  n_steps: 32
  epochs: 1
evaluation:
  every_updates: 0
stop:
  judged_by: training
  mean_return: 1000
"""


class Webhook(BaseHTTPRequestHandler):
    """Where the alerts of that server go."""

    def do_POST(self) -> None:
        self.server.came.append(self.rfile.read(int(self.headers["Content-Length"])))  # type: ignore[attr-defined]
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def alerts() -> Iterator[HTTPServer]:
    with HTTPServer(("127.0.0.1", 0), Webhook) as webhook:
        webhook.came = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=webhook.serve_forever)
        thread.start()
        yield webhook
        webhook.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, alerts: HTTPServer) -> Iterator[RunningServer]:
    """It tells its alerts."""
    folder = tmp_path_factory.mktemp("server")
    (folder / "config").mkdir()
    webhook = f"alerts:\n  webhook: http://127.0.0.1:{alerts.server_port}/told\n"
    (folder / "config" / "config.yaml").write_text(webhook)
    running = RunningServer(folder)
    try:
        yield running
    finally:
        running.close()


_LOOKS = {"open", "os.listdir", "os.scandir", "sqlite3.connect"}
_not_here: list[str] = []  # the folder that the window's computer does not have
_looked: list[str] = []


def _notice(event: str, args: tuple[object, ...]) -> None:
    if event in _LOOKS and _not_here and str(args[0]).startswith(_not_here[0]):
        frame, window = sys._getframe(1), str(Path(soulsgui.gui.__file__).parent)
        while frame is not None:
            if frame.f_code.co_filename.startswith(window):
                _looked.append(f"{args[0]}, by {frame.f_code.co_filename}:{frame.f_lineno}")
                return
            frame = frame.f_back  # type: ignore[assignment]


sys.addaudithook(_notice)


@pytest.fixture(autouse=True)
def _needs_no_file_of_the_server(server: RunningServer) -> Iterator[None]:
    """On this machine alone a page could read them without anybody noticing."""
    _not_here.append(str(server.folder))
    yield
    _not_here.clear()
    assert not _looked


def configure(far: Far, server: RunningServer) -> None:
    config = far.page(ConfigPage, "config")
    far.until(lambda: config.views.filled, "the file of that server")
    text = config.text + SETTINGS
    config.views.text.setPlainText(text)
    far.do(config.head.save)
    file = server.folder / "config" / "config.yaml"
    far.until(lambda: file.read_text() == text and not config.unsaved, "it is saved there")


def begin(far: Far, server: RunningServer) -> Path:
    far.do(far.window.toolbar.new_run)
    dialog = far.opened(NewRunDialog)
    dialog.name.setText("far")
    far.do(dialog.start)
    far.until(lambda: far.feed.status.run.updates > 0, "a run there learns")
    run = server.data / "runs" / far.feed.status.run.id
    assert json.loads((run / "config.json").read_text())["ppo"]["n_steps"] == 32
    return run


def steer(far: Far, server: RunningServer) -> None:
    overview = far.page(OverviewPage, "overview")
    far.until(lambda: len(overview.plot.curve.series) > 0, "its curve")
    far.until(lambda: overview.clients.model.row_of("client-1") is not None, "its client")
    overview.clients.choose("client-1")
    far.do(overview.clients.buttons["pause"])
    far.until(lambda: server.client_state("client-1") == "paused", "its client pauses")
    clients = far.page(ClientsPage, "clients")
    clients.show_where(client="client-1")
    far.do(clients.roster.buttons["resume"])
    far.until(lambda: server.client_state("client-1") != "paused", "it plays on")


def change_what_runs(far: Far, server: RunningServer) -> None:
    config = far.page(ConfigPage, "config")
    running = config.running
    config.views.setCurrentWidget(running)
    far.until(lambda: running.form is not None and running.form.isEnabled(), "its live settings")
    type_in(running, "ppo.clip", "0.125")
    far.do(running.apply)
    far.until(lambda: "ppo.clip" in running.undo.toolTip(), "it can be taken back")
    assert server.api.command("config.get")["running"]["ppo.clip"] == 0.125
    file = server.folder / "config" / "config.yaml"
    far.until(lambda: "clip: 0.125" in file.read_text(), "it is kept for the next run")


def read(far: Far) -> None:
    plots = far.page(PlotsPage, "plots")
    plots.show_where(metric="policy_loss")
    far.until(lambda: plots.grid.cells and all(cell.curves for cell in plots.grid.cells.values()), "plots")
    far.until(lambda: "policy_loss" in plots.grid.values_in_view(), "its values")
    plots.saving.save("csv")
    assert "policy_loss" in far.choose_file("plots.csv").read_text()
    logs = far.page(LogsPage, "logs")
    logs.show_where(service="trainer")
    far.until(lambda: "start of trainer" in logs.pane.text, "its log")
    assert b"start of trainer" in far.save_by(logs.save, "trainer.log")
    logs.tabs.setCurrentWidget(logs.audit)
    far.until(
        lambda: {"run.start", "clients.pause"} <= {entry.command for entry in logs.audit.model.records},
        "what was asked of it",
    )


def pause(far: Far, on: bool) -> None:
    far.do(far.window.toolbar.pause)
    far.until(lambda: (far.feed.status.run.state == "paused") is on, "it pauses" if on else "it goes on")


def keep_checkpoints(far: Far, server: RunningServer, run: Path) -> RunsPage:
    runs = far.page(RunsPage, "runs")
    far.until(lambda: runs.chosen is not None and runs.chosen.id == run.name, "it is among the runs")
    tab, videos = runs.details.checkpoints, runs.details.videos
    far.do(tab.save)
    far.until(lambda: tab.chosen is not None and tab.chosen.kind == "manual", "it is saved")
    assert list((run / "manual_save").glob("*/manifest.json"))

    far.do(tab.film)
    dialog = far.opened(EvaluateDialog)
    dialog.episodes.setValue(1)
    far.do(dialog.main)
    pid = server.process.pid
    far.until(lambda: let_play(pid) and videos.chosen is not None, "a film is made")
    assert far.save_by(videos.save, videos.chosen.file.name)  # type: ignore[union-attr]
    column = tab.model.column_number("evaluation")
    far.until(lambda: tab.model.index(tab.table.currentIndex().row(), column).data() != NOTHING, "its score")
    far.do(tab.watch)
    (pane,) = far.opened(Player).panes
    far.until(lambda: let_play(pid) and pane.recording.place > 3, "it is seen playing")
    far.opened(Player).close()
    return runs


def queue(far: Far, runs: RunsPage) -> None:
    far.do(far.window.toolbar.new_run)
    far.do(far.opened(NewRunDialog).queue)
    far.until(lambda: far.feed.status.queue, "one waits")
    (waiting,) = (row for row in runs.model.records if isinstance(row, QueuedRow))
    runs.show_where(run=waiting.id)
    far.do(runs.queue.buttons["remove"])
    answer(runs.queue.buttons["remove"], "Take out")
    far.until(lambda: not far.feed.status.queue, "it waits no longer")


def search(far: Far, runs: RunsPage) -> None:
    far.do(far.window.toolbar.new_run)
    dialog = far.opened(NewRunDialog)
    far.until(dialog.start.isEnabled, "the settings of that server")
    dialog.as_sweep.click()
    dialog.sweep.steps.setText("5000")
    far.do(dialog.start)
    far.until(lambda: far.feed.status.queue, "a trial waits")
    (trial,) = (row for row in runs.model.records if isinstance(row, QueuedRow))
    runs.show_where(run=trial.id)
    far.do(runs.queue.buttons["sweep"])
    answer(runs.queue.buttons["sweep"], "Stop")
    far.until(lambda: not far.feed.status.queue, "the sweep is over")


def end(far: Far, runs: RunsPage, run: Path) -> None:
    details, window = runs.details, far.window
    far.do(window.toolbar.stop)
    far.until(lambda: far.feed.status.run.state == "stopped", "it is stopped")
    runs.show_where(run=run.name)
    far.do(details.edit)
    dialog = far.opened(NoteDialog)
    dialog.name.setText("far away")
    far.do(dialog.save)
    far.until(lambda: runs.chosen is not None and runs.chosen.name == "far away", "it is renamed")
    for pinned in (True, False):
        far.do(details.pin)
        far.until(lambda pinned=pinned: runs.chosen and runs.chosen.pinned is pinned, f"pinned: {pinned}")
    assert far.save_by(details.export, "far.soulsrun")
    far.do(details.trash)
    far.until(lambda: not run.exists(), "it is in the bin")
    notices: list[message_bar.NoticeRow] = []
    far.until(
        lambda: notices.extend(row for row in window.messages.rows if row.notice.action == "Undo") or notices,
        "it can be put back",
    )
    notices[0].action.click()
    far.until(run.exists, "it is put back")
    far.do(runs.bring)
    far.choose_file("far.soulsrun")
    far.until(lambda: runs.chosen is not None and runs.chosen.id not in ("", run.name), "it is brought there")
    assert (run.parent / runs.chosen.id / "run.json").exists() if runs.chosen is not None else False


def invite(far: Far) -> None:
    clients = far.page(ClientsPage, "clients")
    far.do(clients.invite)
    dialog = far.opened(InviteDialog)
    far.do(dialog.invite)
    far.until(dialog.link.text, "the link")
    link = Invitation.parse(dialog.link.text())
    far.do(dialog.save)
    assert Invitation.load(far.choose_file("gamer.soulsgui")) == link
    far.do(dialog.revoke)
    far.until(lambda: not dialog.link.text(), "it is revoked")
    dialog.reject()


def try_alerts(far: Far, alerts: HTTPServer) -> None:
    config = far.page(ConfigPage, "config")
    config.views.setCurrentWidget(config.server)
    far.do(config.server.test)
    far.until(lambda: alerts.came, "the webhook is told")  # type: ignore[attr-defined]


def test_a_window_without_any_server_file_does_everything_on_every_page(
    far: Far,
    ssh: Ssh,
    server: RunningServer,
    command: str,
    alerts: HTTPServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(message_bar, "_BRIEF_MS", round(1000 * LIMIT_S))
    far.add(HOST, command)
    far.until_live()
    ask, tunnel = ssh.calls[:2]
    assert ask[ask.index("--") :] == ["--", HOST, command, "control", "--json"]
    assert tunnel[tunnel.index("--") :] == ["--", HOST, command, "control", "--hold"]
    for words in (ask, tunnel):
        assert "BatchMode=yes" in words

    configure(far, server)
    run = begin(far, server)
    steer(far, server)
    change_what_runs(far, server)
    read(far)
    # Evaluations give way to a training that goes on, which may be long on a busy machine.
    pause(far, True)
    runs = keep_checkpoints(far, server, run)
    queue(far, runs)
    search(far, runs)
    pause(far, False)
    end(far, runs, run)
    invite(far)
    try_alerts(far, alerts)

    window = far.window
    window.remember()
    token = json.loads((server.data / "server" / "control.json").read_text())["token"]
    left = {path.name: path.read_bytes() for path in far.home.rglob("*") if path.is_file()}
    of_qt = {"QtProject.conf"}  # where its dialogs of files wrote it: one of an earlier window is kept
    assert set(left) - of_qt == {"window.ini"} | far.saved, "no file of a server is here"
    assert all(token.encode() not in content for content in left.values())
    assert Preferences(far.folders).servers == [RemoteServer(HOST, command)]

    (before,), asked = ssh.tunnels(), len(ssh.calls)
    before.kill()
    far.until_state(ConnectionState.RECONNECTING)
    far.until_live()
    (after,) = ssh.tunnels()
    assert after.pid != before.pid
    assert len(ssh.calls) >= asked + 2, "each connection asks anew"

    window.show_server(None)
    far.until_state(ConnectionState.WELCOME)
    assert not ssh.tunnels()
    assert far.feed.hello is None
    assert window.toolbar.servers.accessibleName() == "Server: This computer"
