"""The commands ``show`` and ``predict``: what they print, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.commands import Commands, assert_one_line

from cosched_hwmodel.cli.drawing import node_lines
from cosched_hwmodel.cli.predicting.blame import tell
from cosched_hwmodel.cli.predicting.job_words import jobs_of, read_profiles
from cosched_hwmodel.composite.composite_model import CompositeModel
from cosched_hwmodel.composite.job_profile import Profile
from cosched_hwmodel.topology import Cache, NodeShape, load_shape

NODE = NodeShape(
    "small",
    sockets=2,
    cores_per_socket=2,
    memory_mb=3072,
    threads_per_core=2,
    caches=(Cache(1, 32, 1), Cache(3, 16384, 2, miss_ns=80)),
    memory_bandwidth_mbs=20000,
    idle_w=100.0,
    busy_w=10.0,
)
DRAWN = """\
small: 2 x 2 cores x 2 threads
  memory 3 GiB
  memory bandwidth 20000 MB/s; network unlimited; disk unlimited
  watts: 100 W idle, 10 W more for each busy core
  socket 0
    L3 16 MiB
      core    0 1
      thread  0 1
      thread  4 5
  socket 1
    L3 16 MiB
      core    2 3
      thread  2 3
      thread  6 7
  each core: L1 32 KiB"""
FILE = """\
[[nodes]]
name = "small"
sockets = 2
cores_per_socket = 2
threads_per_core = 2
memory_mb = 3072
memory_bandwidth_mbs = 20000
caches = [{ level = 3, size_kb = 16384, cores = 2, miss_ns = 80 }]
"""
PROFILES = """\
[stream]
memory_mbs = 8000
[table]
working_set_kb = 12288
accesses_ms = 10000
"""


@pytest.fixture
def files(commands: Commands) -> Commands:
    (commands.folder / "node.toml").write_text(FILE)
    (commands.folder / "node-profiles.toml").write_text(PROFILES)
    (commands.folder / "two.toml").write_text(FILE + FILE.replace("small", "other"))
    (commands.folder / "bad.toml").write_text("[stream]\nmemory_mbs = 8000\nmemry_mb = 1\n")
    (commands.folder / "odd.toml").write_text("stream = 8000\n")
    return commands


# ---------------------------------------------------------------- show


def test_a_node_is_drawn_with_its_numbers() -> None:
    assert "\n".join(node_lines(NODE)) == DRAWN


def test_many_cores_take_several_rows() -> None:
    lines = node_lines(load_shape("1x20x1"), 3)
    assert lines[0] == "1x20x1: 1 x 20 cores x 1 threads, 3 such nodes"
    assert [line.split()[0::16] for line in lines if "core " in line] == [["core", "15"], ["core"]]


def test_show_draws_every_class_of_a_machine(files: Commands) -> None:
    ran = files.hwmodel("show", "two.toml")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.count("memory bandwidth 20000 MB/s") == 2
    shapes = json.loads(files.hwmodel("show", "two.toml", "--json").out)
    assert [(shape["name"], shape["count"], shape["threads"]) for shape in shapes] == [("small", 1, 8), ("other", 1, 8)]
    assert shapes[0]["caches"][0]["miss_ns"] == 80


# ---------------------------------------------------------------- predict


def test_each_job_is_told_who_slows_it_and_through_what() -> None:
    stream, table = Profile(memory_mbs=8000), Profile(working_set_kb=12288, accesses_ms=10000)
    words = ["stream@0", "table@1", "table@5", "stream@2"]
    jobs = jobs_of(words, {"stream": stream, "table": table}, NODE)
    assert [job.label for job in jobs] == ["stream", "table", "table#2", "stream#2"]
    told = {each.job.label: each for each in tell(CompositeModel(), NODE, jobs)}
    # The two tables need 24 MiB of the 16 below them: each loses half of its missing third.
    by = {blame.by: dict(blame.parts) for blame in told["table"].blames}
    assert set(by) == {"table#2"}
    assert by["table#2"]["cache 3"] == pytest.approx(4096 / 12288 * 10000 * 80 / 1e6)
    assert told["table"].slowdown == pytest.approx(told["table#2"].slowdown)
    # A stream on the other socket costs nothing, and one stream fits into a socket's bandwidth.
    assert told["stream#2"].slowdown == 1.0
    assert told["stream#2"].blames == ()


def test_a_job_can_slow_itself_down() -> None:
    (told,) = tell(CompositeModel(), NODE, jobs_of(["wide:memory_mbs=8000@0,1"], {}, NODE))
    (blame,) = told.blames
    assert blame.by == "wide"
    assert dict(blame.parts) == pytest.approx({"memory bandwidth": 0.6})


def test_predict_reads_the_profiles_beside_the_node(files: Commands) -> None:
    ran = files.hwmodel("predict", "node.toml", "stream", "stream", "--seat", "L3")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        "On small; alone each process takes 1:",
        "  job       threads  takes  slowed by       through",
        "  stream    0         1.60  stream#2 +0.60  memory bandwidth 0.60",
        "  stream#2  1         1.60  stream +0.60    memory bandwidth 0.60",
    ]
    apart = json.loads(files.hwmodel("predict", "node.toml", "stream", "stream", "--seat", "node", "--json").out)
    assert [job["slowdown"] for job in apart["jobs"]] == [1.0, 1.0]
    assert [job["threads"] for job in apart["jobs"]] == [[0], [2]]
    whole = files.hwmodel(
        "predict", "node.toml", "stream", "stream", "x:cpu_ppm=0", "--set", "memory_scope=node", "--json"
    )
    assert [job["threads"] for job in json.loads(whole.out)["jobs"]] == [[0], [1], [2]]


def test_profiles_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(PROFILES)
    assert read_profiles(str(tmp_path / "p.toml"))["stream"] == Profile(memory_mbs=8000)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("show", "none.toml"), "none.toml: cannot be read: No such file or directory"),
        (("show", "rua-4"), 'no preset "rua-4"; did you mean "rua-4way"?'),
        (("predict", "two.toml", "stream"), "two.toml: expected one class of nodes, got small, other"),
        (("predict", "node.toml", "strem"), 'strem: no application "strem"; did you mean "stream"?'),
        (
            ("predict", "rua-4way", "stream"),
            "stream: expected its demand, such as stream:memory_mbs=2000, or --profiles",
        ),
        (("predict", "node.toml", "a:memory_mbs=x"), "expected FIELD=WHOLE NUMBER, got 'memory_mbs=x'"),
        (("predict", "node.toml", "a:memry_mbs=1"), 'memry_mbs: is no field of a profile; did you mean "memory_mbs"?'),
        (("predict", "node.toml", "stream@8"), "stream@8: expected a hardware thread from 0 to 7 of small"),
        (
            ("predict", "node.toml", "stream@0-999999"),
            "expected hardware threads such as 0-3,8 after @, got '0-999999'",
        ),
        (("predict", "node.toml", "stream@1-0"), "expected hardware threads such as 0-3,8 after @, got '1-0'"),
        (
            ("predict", "node.toml", "stream@0", "table@0"),
            "table@0: expected a free hardware thread, and stream holds it",
        ),
        (("predict", "node.toml", "stream@0-7", "table"), "table: expected a free hardware thread, and all 8 of small"),
        (("predict", "node.toml", "stream", "table", "--seat", "L2"), "seat L2: small has core, L3, node"),
        (("predict", "node.toml", "stream", "--seat", "L3"), "--seat: expected two jobs without threads"),
        (("predict", "node.toml", "stream", "--set", "overlap=bad"), 'unknown overlap "bad"'),
        (("predict", "node.toml", "stream", "--set", "overlap"), "--set: expected KEY=VALUE, got 'overlap'"),
        (
            ("predict", "node.toml", "x", "--profiles", "bad.toml"),
            "bad.toml: stream: memry_mb: is no field of a profile",
        ),
        (("predict", "node.toml", "x", "--profiles", "odd.toml"), "odd.toml: stream: expected a table of the fields"),
        (("predict", "node.toml", "x", "--profiles", "none.toml"), "none.toml: cannot be read: No such file"),
    ],
)
def test_bad_input_is_one_line(files: Commands, arguments: tuple[str, ...], text: str) -> None:
    assert text in assert_one_line(files.hwmodel(*arguments), 2, "cosched-hwmodel")


@pytest.mark.parametrize(
    "arguments", [("show", "999999x999999x1"), ("predict", "64x64x2", "a:memory_mbs=1", "b:memory_mbs=1")]
)
def test_nodes_have_at_most_1024_threads(commands: Commands, arguments: tuple[str, ...]) -> None:
    text = assert_one_line(commands.hwmodel(*arguments), 2, "cosched-hwmodel")
    assert text.startswith(f"{arguments[1]}: expected nodes with at most 1024 hardware threads")
