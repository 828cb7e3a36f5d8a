"""Results in notebooks and as streams of columns: every kind shows itself, and each number is that of the run."""

from __future__ import annotations

import ctypes
import gc
from pathlib import Path

import numpy as np
import pytest

from cosched_emulator import Run, classes, compare, losers, prepare, simulate
from cosched_emulator.api import arrow
from cosched_emulator.errors import ConfigurationError
from cosched_emulator.results.shown import html_of


@pytest.fixture(scope="module")
def runs() -> tuple[Run, Run]:
    site = prepare({"cluster": {"nodes": 8}, "workload": {"lublin": 40}}, seed=3)
    return simulate(site, "fcfs"), simulate(site, "easy")


def test_runs_in_memory_compare_as_their_folders(runs: tuple[Run, Run], tmp_path: Path) -> None:
    folders = [run.write(tmp_path / run.policy) for run in runs]
    inside, outside = compare(*runs), compare(*folders)
    assert str(inside) == str(outside)
    assert inside.names == ["fcfs", "easy"]
    assert str(classes(*runs)) == str(classes(*folders))
    assert (
        losers(runs[1], runs[0]).as_dict() == losers(*reversed(folders)).as_dict() == losers(*reversed(runs)).as_dict()
    )
    assert compare(runs[0], runs[0]).names == ["fcfs 1", "fcfs 2"]


@pytest.mark.parametrize("names", [["a"], ["a", "a"]])
def test_names_of_runs_are_as_many_and_differ(names: list[str], runs: tuple[Run, Run]) -> None:
    with pytest.raises(ConfigurationError, match="names: expected 2 different names"):
        compare(*runs, names=names)


def test_names_from_outside_are_text(runs: tuple[Run, Run]) -> None:
    shown = html_of(compare(*runs, names=["<script>", "b"]))
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown


def test_what_has_no_view_says_so() -> None:
    with pytest.raises(TypeError, match="no view of int"):
        html_of(5)


def test_a_stream_has_the_columns_and_leaves_nothing(runs: tuple[Run, Run]) -> None:
    """Without a library that reads it: the structures are read as C reads them, and released as their reader does."""
    before = len(arrow._kept)
    jobs = runs[0].jobs
    found = arrow._array_of({"id": jobs.id, "wait_s": jobs.wait_s, "state": jobs.state})
    assert (found.length, found.n_children) == (40, 3)
    numbers, waits, states = (found.children[place].contents for place in range(3))
    assert np.ctypeslib.as_array(ints(numbers.buffers[1]), (40,)).tolist() == jobs.id.tolist()
    assert waits.n_buffers == 2
    ends = np.ctypeslib.as_array(ints(states.buffers[1]), (41,))
    assert ends.tolist() == [0, *np.cumsum([len(state) for state in jobs.state.tolist()]).tolist()]
    arrow._RELEASE[arrow._Array](ctypes.addressof(found))
    capsule = jobs.__arrow_c_stream__()
    assert type(capsule).__name__ == "PyCapsule"
    del capsule
    gc.collect()
    assert (len(arrow._kept), len(arrow._streams)) == (before, 0)


def ints(address: int) -> object:
    return ctypes.cast(address, ctypes.POINTER(ctypes.c_int64))


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_libraries_read_the_stream(library: str, runs: tuple[Run, Run]) -> None:
    module = pytest.importorskip(library)
    table = module.DataFrame(runs[0]) if library == "polars" else module.table(runs[0].jobs)
    assert table["wait_s"].to_numpy().tolist() == runs[0].jobs.wait_s.tolist()
    assert (
        table["state"].to_pylist() if library == "pyarrow" else table["state"].to_list() == runs[0].jobs.state.tolist()
    )
