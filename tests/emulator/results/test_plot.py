"""Pictures: they are written, show the data, and fail with a clear message."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.emulator.results.samples import TWO_NODES, six_jobs

from cosched_emulator.errors import ConfigurationError, EmulatorError, InputError
from cosched_emulator.results.figures.comparison import PolicyRuns, compare_seeds
from cosched_emulator.results.figures.metrics import summarise
from cosched_emulator.results.figures.plot import (
    COMPARED,
    SeedSeries,
    Series,
    plot_comparison,
    plot_distribution,
    plot_seed_comparison,
)

SUMMARY = summarise(six_jobs(), TWO_NODES)

Draw = Callable[[Path], None]


def comparison(file: Path) -> None:
    plot_comparison(file, ["easy", "rua"], [SUMMARY, SUMMARY], title="two runs")


def distribution(file: Path) -> None:
    plot_distribution(file, [Series("easy", np.array([0.0, 5, 9])), Series("rua", np.zeros(0))], "wait [s]", floor=1)


ALL = pytest.mark.parametrize("draw", [comparison, distribution])


@pytest.fixture
def _matplotlib() -> None:
    pytest.importorskip("matplotlib", reason="the plot extra is not installed")


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch, _matplotlib: None) -> list[str]:
    """Collect the texts of the pictures that are saved."""
    from matplotlib.figure import Figure  # noqa: PLC0415
    from matplotlib.text import Text  # noqa: PLC0415

    found: list[str] = []
    save = Figure.savefig

    def collect(picture: Any, *arguments: Any, **options: Any) -> None:
        save(picture, *arguments, **options)
        found.extend(text.get_text() for text in picture.findobj(Text) if text.get_visible())

    monkeypatch.setattr(Figure, "savefig", collect)
    return found


@pytest.mark.by_default(3)
@ALL
@pytest.mark.usefixtures("_matplotlib")
@pytest.mark.parametrize(("ending", "start"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")])
def test_equal_data_give_equal_files(tmp_path: Path, draw: Draw, ending: str, start: bytes) -> None:
    first, second = tmp_path / f"first{ending}", tmp_path / f"second{ending}"
    draw(first)
    draw(second)
    assert first.read_bytes().startswith(start)
    assert first.read_bytes() == second.read_bytes()


@ALL
def test_without_matplotlib_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, draw: Draw
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(EmulatorError, match=r"pip install 'cosched\[plot\]'"):
        draw(tmp_path / "picture.png")


@ALL
def test_unknown_file_endings_are_refused(tmp_path: Path, draw: Draw) -> None:
    with pytest.raises(ConfigurationError, match=r"ends in \.png, \.svg, \.pdf"):
        draw(tmp_path / "picture.gif")


@pytest.mark.usefixtures("_matplotlib")
def test_an_unwritable_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a file that can be written"):
        comparison(tmp_path / "no" / "such" / "folder.png")


def test_the_comparison_shows_values_and_names(tmp_path: Path, texts: list[str]) -> None:
    better: Any = SUMMARY | {"killed": {"count": 0, "share": 0.0}}
    plot_comparison(tmp_path / "x.png", ["easy", "rua"], [SUMMARY, better], "all", "title")
    assert {"easy", "rua", "title", "wait, mean [s]", "22.50", "1", "0"} <= set(texts)
    assert any("all jobs that ran" in text for text in texts)


def test_a_comparison_of_runs_without_figures_is_drawn(tmp_path: Path, texts: list[str]) -> None:
    plot_comparison(tmp_path / "x.png", ["nothing"], [summarise([], TWO_NODES)])
    assert texts.count("–") == 1  # noqa: RUF001 - of the first figure


def test_figures_that_are_0_for_all_are_not_drawn_and_the_response_comes_first(
    tmp_path: Path, texts: list[str]
) -> None:
    plot_comparison(tmp_path / "x.png", ["easy", "rua"], [SUMMARY | {"killed": {"count": 0, "share": 0.0}}] * 2)
    titles = [text for text in texts if text.startswith(("response", "wait, ", "jobs killed", "energy"))]
    assert titles == ["response, mean [s]", "wait, mean [s]", "response, p95 [s]", "wait, p95 [s]"]  # in two columns


def test_several_seeds_have_error_bars_and_a_band(tmp_path: Path, texts: list[str]) -> None:
    waits: list[Any] = [SUMMARY, SUMMARY | {"finished": SUMMARY["all"]}]  # mean waits of 26.67 and 22.5 s
    rows = compare_seeds(
        [PolicyRuns("easy", (1, 2), waits), PolicyRuns("one", (1,), waits[:1])], figures=COMPARED, paired=False
    )
    plot_seed_comparison(tmp_path / "x.png", ["easy (2 seeds)", "one"], rows, "finished")
    # 12.706 x 4.1667 / 2 = 26.47, 1.0768 of the mean: from 24.58 / 2.935 to 24.58 x 2.935.
    assert {"easy (2 seeds)", "24.58 (8.38 to 72.16)", "26.67"} <= set(texts)
    assert any("Error bars: 95 % intervals over seeds." in text for text in texts)
    band = "Bands: 95 % intervals over seeds, at each value."
    assert band not in texts
    samples = (np.array([1.0, 2, 5]), np.zeros(0), np.array([2.0, 9]))  # nothing completed under one seed
    plot_distribution(tmp_path / "y.png", [SeedSeries("rua (3 seeds)", samples)], "wait [s]", floor=1)
    assert {"rua (3 seeds)", band} <= set(texts)


def test_an_empty_distribution_is_drawn(tmp_path: Path, texts: list[str]) -> None:
    plot_distribution(tmp_path / "x.png", [Series("easy", np.zeros(0))], "wait [s]", floor=1)
    assert "wait [s]" in texts
