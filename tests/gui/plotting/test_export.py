import csv
import io
from xml.etree import ElementTree

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from soulsgui.gui.plotting.export import as_csv, as_pixmap, as_svg
from soulsgui.gui.plotting.mean import Drawn, MeanSeries
from soulsgui.gui.plotting.series import Series
from tests.gui.plotting.curves import RUN, attempt_row, episodes, update
from tests.gui.reading import shown


def table(*series: Drawn, left: float, right: float) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(as_csv(series, left, right))))


def test_a_table_has_what_is_in_view_of_every_curve_and_no_more() -> None:
    returns, losses = Series(RUN, weight=0.0), Series(RUN, "loss", weight=0.0)
    returns.append([episodes(range(1, 11)), attempt_row(2, 6), episodes([11], attempt=2, episode=[7])])
    losses.append([update(1, loss=0.5), update(2, loss=0.25)])
    rows = table(returns, losses, left=6, right=10)
    told = [(row["metric"], row["attempt"], row["episode"], row["value"], row["overwritten"]) for row in rows]
    assert told == [
        ("return", "1", "6", "6.0", "0"),
        *[("return", "1", str(n), f"{n}.0", "1") for n in (7, 8, 9, 10)],
        ("return", "2", "7", "11.0", "0"),
        ("loss", "1", "10", "0.5", "0"),
    ]
    assert rows[0]["time"] == "2026-09-21T14:13:26.000+00:00"
    assert (rows[-1]["update"], rows[-1]["env_steps"], rows[-1]["run"]) == ("1", "100", RUN)


def test_of_an_experiment_there_is_the_mean_with_its_band() -> None:
    members = [Series(RUN, weight=0.0) for _ in range(2)]
    members[0].append([episodes(range(1, 11), values=[10.0] * 10)])
    members[1].append([episodes(range(1, 9), values=[20.0] * 8)])
    rows = table(MeanSeries(members, "experiment/lr"), members[0], left=6, right=10)
    told = [(row["run"], row["x"], row["mean"], row["low"], row["high"], row["value"]) for row in rows]
    assert told[:3] == [("experiment/lr", f"{x}.0", "15.0", "10.0", "20.0", "") for x in (6, 7, 8)]
    assert [one[2] for one in told[3:]] == [""] * 5, "beside it the rows of a run, as before"
    apart = Series(RUN, weight=0.0)
    apart.append([episodes(range(20, 30))])
    for mean in (MeanSeries([members[0], apart]), MeanSeries([Series(RUN)])):
        assert table(mean, left=0, right=100) == []


def test_a_clients_name_is_no_formula_of_a_spreadsheet() -> None:
    series = Series(RUN, client="=HYPERLINK(1)", weight=0.0)
    series.append([episodes([1], client="=HYPERLINK(1)")])
    assert [row["client"] for row in table(series, left=0, right=2)] == ["'=HYPERLINK(1)"]


def test_a_picture_has_both_widgets_and_a_drawing_their_words_as_words(qtbot: QtBot) -> None:
    above, below = shown(qtbot, QLabel("Return"), 200, 100), shown(qtbot, QLabel("Episode"), 200, 40)
    root = ElementTree.fromstring(as_svg("SoulsGUI", above, below))
    assert root.attrib["viewBox"] == "0 0 224 164"
    words = ["".join(one.itertext()).strip() for one in root.iter() if one.tag.endswith("text")]
    assert words == ["Return", "Episode"]
    picture = as_pixmap(above, below)
    assert picture.deviceIndependentSize().toSize() == QSize(224, 164)
    assert picture.size() == QSize(448, 328)
    sharp = picture.toImage()
    coarse = sharp.scaled(QSize(224, 164)).scaled(sharp.size())
    assert sharp != coarse, "its letters are drawn, not enlarged"
