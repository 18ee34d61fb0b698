from typing import Any

from PySide6.QtWidgets import QSplitter
from pytestqt.qtbot import QtBot

from soulsgui.gui.runs.evaluate import EvaluateDialog
from soulsgui.gui.runs.experiments import SweepPart, sweep_words
from soulsgui.gui.runs.videos import VideosTab
from soulsgui.wire.control import Job, RunSummary, SweepStatus, SweepTrial
from tests.gui.fake_feed import FakeFeed, FakeShell
from tests.gui.questions import answer
from tests.gui.reading import part_of, shown
from tests.gui.runs.test_page import job, played

TRIALS = [
    SweepTrial(
        number=number, state="complete", score=score, values={"ppo.epochs": epochs}, run_id=f"r{number}"
    )
    for number, score, epochs in ((0, 100.0, 5), (1, 300.0, 10))
]


def sweep(**fields: Any) -> SweepStatus:
    told: dict[str, Any] = {"id": "2026_lr", "state": "running", "wanted": 4, "trials": TRIALS}
    told |= {"preset": "pendulum_sac", "overrides": {"stop.env_steps": 300}}
    told |= {"space": {"ppo.epochs": [5, 10]}, "best": TRIALS[1], "importance": {"ppo.epochs": 1.0}}
    return SweepStatus.model_validate(told | fields)


def test_it_tells_its_best_trial_and_what_mattered(qtbot: QtBot, fake: FakeFeed, shell: FakeShell) -> None:
    fake.answers |= {"sweep.status": sweep(), "sweep.stop": sweep(state="stopped")}
    part = shown(qtbot, SweepPart(fake, shell))  # type: ignore[arg-type]
    part.show_sweep("2026_lr")
    qtbot.waitUntil(lambda: part.model is not None and part.model.rowCount() == 2)
    assert "Best: trial 1 with 300.0: ppo.epochs = 10." in part.words.text()
    assert "ppo.epochs 100 %" in part.words.text()
    assert part.model is not None
    assert [part.model.index(0, column).data() for column in (0, 2, 3)] == ["1", "300.0", "10"]
    part.table.selectRow(1)
    with qtbot.waitSignal(part.run_wanted) as wanted:
        part.table.row_opened.emit(part.model.index(1, 0))
    assert wanted.args == ["r0"]
    part.use.click()
    values = {"stop.env_steps": 300, "ppo.epochs": 10}
    assert shell.opened == [("new_run", {"overrides": values, "preset": "pendulum_sac"})]
    part.stop.click()
    fake.answers["sweep.status"] = sweep(state="stopped")
    answer(part, "Stop")
    qtbot.waitUntil(part.stop.isHidden)


def test_its_border_and_columns_stay_with_every_answer_and_come_back_at_the_next_start(
    qtbot: QtBot, fake: FakeFeed, shell: FakeShell
) -> None:
    def made() -> SweepPart:
        part = shown(qtbot, SweepPart(fake, shell), 1000, 400)  # type: ignore[arg-type]
        part.show_sweep("2026_lr")
        qtbot.waitUntil(lambda: part.parallel is not None and part.parallel.isVisible())
        return part

    fake.answers["sweep.status"] = sweep()
    part = made()
    splitter = part_of(part, QSplitter)
    usual = splitter.sizes()
    splitter.setSizes([700, 292])
    part.table.setColumnWidth(0, 222)
    fake.answers["sweep.status"] = sweep(best=TRIALS[0])
    before = part.model
    part.refresh()
    qtbot.waitUntil(lambda: part.model is not before)
    assert part.table.columnWidth(0) == 222
    part.hide()
    again = made()
    qtbot.waitUntil(lambda: part_of(again, QSplitter).sizes() == splitter.sizes() != usual)
    assert again.table.columnWidth(0) == 222


def test_before_four_trials_nothing_is_said_to_have_mattered() -> None:
    words = sweep_words(sweep(importance={}, best=None))
    assert "2 of 4 trials are over" in words
    assert "once four trials are complete" in words
    assert "once" not in sweep_words(sweep(importance={}, state="finished")), "none is to come"
    shares = sweep_words(sweep(importance={"ppo.epochs": 0.997, "ppo.gamma": 0.003}))
    assert "Importance: ppo.epochs 100 %, ppo.gamma 0 %." in shares, "to the same precision"


def test_films_are_listed_made_and_saved(qtbot: QtBot, fake: FakeFeed, shell: FakeShell) -> None:
    tab = shown(qtbot, VideosTab(fake, shell))  # type: ignore[arg-type]
    tab.show_run(RunSummary(id="r3"))
    assert not tab.save.isEnabled()
    tab.film.click()
    part_of(tab, EvaluateDialog).main.click()
    (sent,) = fake.sent_of("checkpoint.evaluate")
    assert (sent.params["run"], sent.params["video"], sent.params["episodes"]) == ("r3", "any", 1)
    sent.call.answer(job("checkpoint.evaluate", "running"))
    file = {"id": "f1", "name": "model-4.mp4", "size_bytes": 1000}
    done = job("checkpoint.evaluate", "done", result=played("r3", 4), files=[file])
    fake.change_job(Job.model_validate(done))
    fake.change_job(Job.model_validate(done | {"id": "j2", "result": played("r9", 4)}))
    assert [film.file.name for film in tab.model.records] == ["model-4.mp4"]
    assert tab.save.isEnabled()
