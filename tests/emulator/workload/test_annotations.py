"""Annotation files: their meaning, the precedence of rows, and refusals."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.emulator.parts import VERBATIM

from cosched_emulator.errors import InputError
from cosched_emulator.workload.characteristics import CHARACTERISTICS, with_characteristics
from cosched_emulator.workload.job import Workload, WorkloadJob
from cosched_emulator.workload.multicore import with_self_slowdowns
from cosched_emulator.workload.side_files.annotations import annotation_lines, read_annotations, with_annotations
from cosched_emulator.workload.swf.swf_reader import read_swf
from cosched_emulator.workload.swf.swf_writer import write_swf
from cosched_plugin.protocol.messages import JobSpec, UsageTuple

ROW = "{} {} -1 100 4 -1 -1 4 120 -1 1 {} 1 {} -1 -1 -1 -1\n"
CSV = """\
job,user,application,bound,cpu,network,disk,memory
12,,,,0.9,0.05,0.05,0.1
,7,9,disk,0.5,,0.4,0.2
,,9,,0.3,0.5,0.2,0.3
,7,,,.2,.2,.6,0.4
"""
TOML = """\
[[job]]
job = 12
cpu = 0.9
network = 0.05
disk = 0.05
memory = 0.1

[[job]]
user = 7
application = "9"
bound = "disk"
cpu = 0.5
disk = 0.4
memory = 0.2

[[job]]
application = 9
cpu = 0.3
network = 0.5
disk = 0.2
memory = 0.3

[[job]]
user = "7"
cpu = 0.2
network = 0.2
disk = 0.6
memory = 0.4
"""


def job(number: int, source_id: int, user: str, name: str, usage: UsageTuple | None = None) -> WorkloadJob:
    return WorkloadJob(JobSpec(number, 0, 1, 100, user=user, name=name), 100, None, source_id, usage)


def write(folder: Path, text: str, name: str = "usage.csv") -> str:
    file = folder / name
    file.write_text(text)
    return str(file)


def test_a_file_overrides_a_mix(tmp_path: Path) -> None:
    plain = Workload(tuple(job(number, number, "7", "") for number in range(1, 4)), None, "by hand")
    drawn = with_characteristics(plain, CHARACTERISTICS["M1"])
    annotated = with_annotations(drawn, read_annotations(write(tmp_path, "job,cpu,network,memory\n2,0.5,0.5,1\n")))
    assert annotated.jobs[1].usage == ("cpu", 500_000, 500_000, 0, 1_000_000)
    assert (annotated.jobs[0], annotated.jobs[2]) == (drawn.jobs[0], drawn.jobs[2])
    assert annotated.notes[-1].endswith("1 jobs by job, 2 jobs not in it; 0 jobs without characteristics")


def test_a_file_without_matching_jobs_gives_a_warning(tmp_path: Path) -> None:
    plain = Workload(tuple(job(number, number, "7", "") for number in range(1, 4)), None, "by hand")
    file = write(tmp_path, "job,cpu,network,memory\n4,0.5,0.5,1\n")
    notes = with_annotations(plain, read_annotations(file)).notes
    assert notes[1:] == (f"warning: {file} annotates none of the 3 jobs",)
    assert notes[0].endswith("0 jobs by job, 3 jobs not in it; 3 jobs without characteristics")


@pytest.mark.parametrize(
    ("row", "usage"),
    [
        ("1,,0.2,,0.3,1", ("network", 200_000, 500_000, 300_000, 1_000_000)),
        ("1,,,0.25,0.5,0", ("disk", 250_000, 250_000, 500_000, 0)),
        ("1,,1,0,,0.000001", ("cpu", 1_000_000, 0, 0, 1)),
        ("1,network,1,0,0,5e-1", ("network", 1_000_000, 0, 0, 500_000)),
        ("1,,0.3333333,0.3333333,,0", ("disk", 333_333, 333_333, 333_334, 0)),
        ("1,,0.3333333,0.3333333,0.3333334,0", ("disk", 333_333, 333_333, 333_334, 0)),
        ("1,cpu,0.3333333,0.3333333,0.3333334,0", ("cpu", 333_334, 333_333, 333_333, 0)),
        ("1,,0.333333,0.333333,0.333333,0", ("cpu", 333_334, 333_333, 333_333, 0)),
        ("1,disk,0.500001,0.5,0,0", ("disk", 500_000, 500_000, 0, 0)),  # no remainder to take from the bound's share
        ("1,,1,0.000001,,0", ("cpu", 999_999, 1, 0, 0)),
        (" 1 , cpu , 0.1 , 0.1 , 0.8 , 0 ", ("cpu", 100_000, 100_000, 800_000, 0)),
    ],
)
def test_values_are_read_as_usages(row: str, usage: UsageTuple, tmp_path: Path) -> None:
    file = write(tmp_path, f"job,bound,cpu,network,disk,memory\n\n{row}\n")
    assert list(read_annotations(file).values["usage"].values()) == [usage]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (",,,,0.5,0.5,0,0", ":2: expected one of job, application, user, or more, got none"),
        ("x,,,,0.5,0.5,0,0", ":2: field 'job': expected a job's number in the source, got 'x'"),
        ("-1,,,,0.5,0.5,0,0", ":2: field 'job': expected a job's number in the source, got '-1'"),
        ("1,,,gpu,0.5,0.5,0,0", ":2: field 'bound': expected one of cpu, network, disk, got 'gpu'"),
        ("1,,,,0.5,,,0", ":2: field 'network': expected a fraction (one of cpu, network, disk may be left out), got none"),
        ("1,,,,0.5,0.4,0,0", ":2: expected cpu, network and disk with a sum of 1, got 0.9"),
        ("1,,,,0.333333,0.333333,0.3333329,0", ":2: expected cpu, network and disk with a sum of 1, got 0.9999989"),
        ("1,,,,0.5,0.5000011,,0", ":2: expected cpu, network and disk with a sum of at most 1, got 1.0000011"),
        ("1,,,,0.7,0.4,,0", ":2: expected cpu, network and disk with a sum of at most 1, got 1.1"),
        ("1,,,,1.5,0.5,0,0", ":2: field 'cpu': expected a fraction from 0 to 1, got '1.5'"),
        ("1,,,,-0.5,1,0.5,0", ":2: field 'cpu': expected a fraction from 0 to 1, got '-0.5'"),
        ("1,,,,nan,1,0,0", ":2: field 'cpu': expected a fraction from 0 to 1, got 'nan'"),
        ("1,,,,40%,0.6,0,0", ":2: field 'cpu': expected a fraction from 0 to 1, got '40%'"),
        ("1,,,,0.5,0.5,0,", ":2: field 'memory': expected a fraction from 0 to 1, got none"),
        ("1,,,,0.5,0.5,0", ":2: expected 8 fields, got 7"),
        ("1,7,,,1,0,0,0\n1,7,,,0,1,0,0", ":3: expected each key once, got job 1, user 7 again"),
        ("01,,,,1,0,0,0\n1,,,,0,1,0,0", ":3: expected each key once, got job 1 again"),
        ('1,"7,,,0.5,0.5,0,0', ":2: expected a CSV file, got unexpected end of data"),
    ],
)  # fmt: skip
def test_wrong_rows_are_named_with_their_place(row: str, message: str, tmp_path: Path) -> None:
    file = write(tmp_path, f"job,user,application,bound,cpu,network,disk,memory\n{row}\n")
    with pytest.raises(InputError) as caught:
        read_annotations(file)
    assert str(caught.value) == file + message
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("", "usage.csv", ": expected at least one row of values, got none"),
        ("job,cpu,network,memory\n", "usage.csv", ": expected at least one row of values, got none"),
        ("job,cpu,net,memory\n", "usage.csv", ":1: expected the names job, .*, got 'net'; did you mean 'network'?"),
        ("job,job\n1,1\n", "usage.csv", ":1: expected each column once, got job again"),
        ("", "usage.toml", r": expected \[\[job\]\] tables and nothing else, got the keys none"),
        ("x = 1\n[[job]]\njob = 1", "usage.toml", "nothing else, got the keys x, job"),
        ("job = [1]", "usage.toml", r": field 'job\[0\]': expected a table, got 1"),
        ("[[job]]\njob = '1'", "usage.toml", r": field 'job\[0\]\.job': expected a job's number in the source, got '1'"),
        ("[[job]]\nuser = true", "usage.toml", r": field 'job\[0\]\.user': expected a text or a whole number, got True"),
        ("[[job]]\nbound = 1", "usage.toml", r": field 'job\[0\]\.bound': expected one of cpu, network, disk, got 1"),
        ("[[job]]\njob = 1\ncpu = '0.5'", "usage.toml", r": field 'job\[0\]\.cpu': expected a fraction .*, got '0.5'"),
        ("[[job]]\njob = 1\ncpu = nan", "usage.toml", r": field 'job\[0\]\.cpu': expected a fraction from 0 to 1"),
        ("[[job]]\nmemory = 1", "usage.toml", r": field 'job\[0\]': expected one of job, application, user, or more"),
        ("[[job]]\nuzer = 1", "usage.toml", r": field 'job\[0\]': expected the names .*; did you mean 'user'?"),
        ("[[job]\n", "usage.toml", ": expected TOML, got "),
    ],
)  # fmt: skip
def test_wrong_files_are_refused(text: str, name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"{name}.*{message}"):
        read_annotations(write(tmp_path, text, name))


def test_unreadable_files_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.csv: expected a file that can be read, got No such file"):
        read_annotations(str(tmp_path / "none.csv"))
    with pytest.raises(InputError, match=r"^annotations: expected a CSV or TOML file, got ''$"):
        read_annotations("")
    with pytest.raises(InputError, match="expected a regular file"):
        read_annotations(str(tmp_path))
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=r"binary\.csv: expected a text in UTF-8"):
        read_annotations(str(tmp_path / "binary.csv"))


def test_jobs_with_repeated_numbers_are_read_back(tmp_path: Path) -> None:
    log = tmp_path / "log.swf"
    log.write_text("".join(ROW.format(5, index, user, 1) for index, user in enumerate((7, 8, -1))))
    first = with_annotations(
        read_swf(log), read_annotations(write(tmp_path, "user,cpu,network,memory\n7,1,0,0\n8,0,1,0.5\n"))
    )
    again = tmp_path / "again.swf"
    write_swf(again, first)
    text = "".join(annotation_lines(first))
    assert text.splitlines()[0] == "job,application,user,bound,cpu,network,disk,memory"
    second = with_annotations(read_swf(again, VERBATIM), read_annotations(write(tmp_path, text)))
    assert [item.usage for item in second.jobs] == [item.usage for item in first.jobs]
    assert [item.usage and item.usage[0] for item in first.jobs] == ["cpu", "network", None]


# ---------------------------------------------------------------- self slowdowns


def test_self_slowdowns_override_drawn_ones(tmp_path: Path) -> None:
    drawn = with_self_slowdowns(Workload(tuple(job(number, number, "7", "") for number in (1, 2)), None, "by hand"))
    file = write(tmp_path, "[[job]]\njob = 2\nself_node = 1\nself_core = 1.5\n", "self.toml")
    annotated = with_annotations(drawn, read_annotations(file))
    assert annotated.jobs[0] == drawn.jobs[0]
    assert annotated.jobs[1] == drawn.jobs[1]._replace(self_slowdown=(1_000_000, 1_500_000))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("1,1.1,", "field 'self_core': expected a factor from 0.000001 to 1000, got none"),
        ("1,,1.1", "field 'self_node': expected a factor from 0.000001 to 1000, got none"),
        ("1,0,1", "field 'self_node': expected a factor from 0.000001 to 1000, got '0'"),
        ("1,1,-1", "field 'self_core': expected a factor from 0.000001 to 1000, got '-1'"),
        ("1,1,1001", "field 'self_core': expected a factor from 0.000001 to 1000, got '1001'"),
        ("1,nan,1", "field 'self_node': expected a factor from 0.000001 to 1000, got 'nan'"),
        ("1,x,1", "field 'self_node': expected a factor from 0.000001 to 1000, got 'x'"),
        ("1,,", ": expected at least one row of values, got none"),
        ("1,1,1\n1,1,1", "expected each key once, got job 1 again"),
    ],
)
def test_wrong_self_slowdowns_are_refused(row: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read_annotations(write(tmp_path, f"job,self_node,self_core\n{row}\n"))
    assert str(caught.value).endswith(message)
    with pytest.raises(InputError, match=r"job\[0\]\.self_node': expected a factor from .*, got 'x'"):
        read_annotations(write(tmp_path, "[[job]]\njob = 1\nself_node = 'x'\n", "self.toml"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("blank.csv", "job,priority,begin_s\n1,,\n2,5,\n"),
        ("blank.toml", "[[job]]\njob = 1\n[[job]]\njob = 2\npriority = 5\n"),
    ],
)
def test_a_row_without_values_says_nothing_of_its_job(name: str, text: str, tmp_path: Path) -> None:
    """It was refused by a field that the file does not have."""
    plain = Workload((job(1, 1, "8", ""), job(2, 2, "7", "")), None, "by hand")
    annotated = with_annotations(plain, read_annotations(write(tmp_path, text, name)))
    assert [each.spec.priority for each in annotated.jobs] == [0, 5]
    assert annotated.jobs[0] == plain.jobs[0]
    assert annotated.notes[0].endswith("1 jobs by job, 1 jobs not in it; 2 jobs without characteristics")


ASKED = """\
job,user,ppn,priority,account,eligible,resources,licences
1,,4,-7,"x,y",,,
,8,2,5,,0-3;32,gpu:2;fpga:1,solver:1
"""


def test_jobs_ask_for_what_rows_say_and_a_written_file_says_it_again(tmp_path: Path) -> None:
    jobs = (job(1, 1, "8", ""), job(2, 2, "7", ""), job(3, 3, "8", ""))
    plain = Workload(jobs, None, "by hand")
    annotated = with_annotations(plain, read_annotations(write(tmp_path, ASKED)))
    asked = [
        (each.spec.priority, each.spec.eligible, each.spec.resources, each.spec.licences) for each in annotated.jobs
    ]
    amounts = ((0, 4), (32, 1)), (("gpu", 2), ("fpga", 1)), (("solver", 1),)
    assert asked == [(-7, *amounts), (0, (), (), ()), (5, *amounts)]
    assert [(each.spec.ppn_min, each.spec.ppn_max) for each in annotated.jobs] == [(4, 4), (1, 0), (2, 2)]
    text = "".join(annotation_lines(annotated))
    assert text.splitlines()[0] == "job,ppn,priority,account,eligible,resources,licences"
    assert with_annotations(plain, read_annotations(write(tmp_path, text))).jobs == annotated.jobs


def test_a_row_says_an_exact_number_of_processes_a_node_alone() -> None:
    first, second = job(1, 1, "8", ""), job(2, 2, "8", "")
    bounded = first._replace(spec=first.spec._replace(ppn_max=2))
    exact = second._replace(spec=second.spec._replace(ppn_min=2, ppn_max=2))
    assert "".join(annotation_lines(Workload((bounded, exact), None, "by hand"))) == "job,ppn\n2,2\n"


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("priority", "1.5", "a whole number from -1000000000 to 1000000000"),
        ("eligible", "3-1", "nodes below 1048576, such as 0-15;32"),
        ("eligible", "0-9999999", "nodes below 1048576, such as 0-15;32"),
        ("resources", ":2", "NAME:COUNT, each name once, several after commas or semicolons"),
        ("resources", "gpu:0", "NAME:COUNT, each name once, several after commas or semicolons"),
        ("licences", "a:1;a:2", "NAME:COUNT, each name once, several after commas or semicolons"),
    ],
)
def test_what_jobs_ask_for_has_its_form(field: str, value: str, expected: str, tmp_path: Path) -> None:
    file = write(tmp_path, f"job,{field}\n1,{value}\n")
    with pytest.raises(InputError) as caught:
        read_annotations(file)
    assert str(caught.value) == f"{file}:2: field '{field}': expected {expected}, got '{value}'"
