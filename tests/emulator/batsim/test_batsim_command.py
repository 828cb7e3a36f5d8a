"""`cosched-emulator batsim` as a process: wrong files and options, and schedulers that say what cannot be, nothing, or too much."""

from __future__ import annotations

import csv
import json
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import zmq
from tests.commands import Commands, assert_one_line
from tests.emulator.batsim.simulations import PROFILES, job

from cosched_emulator.batsim.platform import read_platform
from cosched_emulator.errors import InputError
from cosched_hwmodel.text_formats import decoded

PLATFORM = """<?xml version="1.0"?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><zone id="all" routing="Full">
<host id="master" speed="1Gf"/>
<cluster id="c" prefix="c" suffix="" radical="0-2,10" speed="2Gf" bw="1GBps" lat="0us" core="4"/>
<zone id="more" routing="Full"><host id="b" speed="1.5Mf,1f"><prop id="wattage_per_state" value="95:150,10:10"/></host></zone>
<link id="l" bandwidth="1GBps" latency="0us"/>
</zone></platform>
"""


@contextmanager
def scheduler_at(endpoint: str, reply: Callable[[bytes, int], bytes | None]) -> Iterator[list[bytes]]:
    """Yield what a scheduler hears that answers with ``reply``, of a message and its number; None: it leaves."""
    heard: list[bytes] = []
    context = zmq.Context()
    socket = context.socket(zmq.REP)
    socket.linger = 0
    socket.bind(endpoint)
    over = threading.Event()

    def serve() -> None:
        while not over.is_set():
            if not socket.poll(50):
                continue
            heard.append(socket.recv())
            answer = reply(heard[-1], len(heard))
            if answer is None:
                break
            socket.send(answer)
        socket.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield heard
    finally:
        over.set()
        thread.join()
        context.term()


def first_fit(frame: bytes, _number: int) -> bytes:
    """Start each job at once on the lowest hosts."""
    message = json.loads(frame)
    starts = [
        {"job_id": event["data"]["job_id"], "alloc": f"0-{event['data']['job']['res'] - 1}".removesuffix("-0")}
        for event in message["events"]
        if event["type"] == "JOB_SUBMITTED"
    ]
    events = [{"timestamp": message["now"], "type": "EXECUTE_JOB", "data": data} for data in starts]
    return json.dumps({"now": message["now"], "events": events}).encode()


@pytest.fixture
def files(commands: Commands) -> Path:
    folder = commands.folder
    (folder / "p.xml").write_text(PLATFORM)
    jobs = [job("a", "flops", walltime=20000), job("b", "d10", at=20000, res=3)]
    (folder / "w.json").write_text(json.dumps({"jobs": jobs, "profiles": PROFILES}))
    return folder


FILES = ("-p", "p.xml", "-m", "master", "-w", "w.json")


def test_batsims_files_are_read_and_written(commands: Commands, files: Path) -> None:
    """Hosts have Batsim's order: b, c0, c1, c10, c2; the first one is the slowest."""
    endpoint = f"ipc://{files}/s.sock"
    with scheduler_at(endpoint, first_fit) as heard:
        ran = commands.emulator("batsim", "--connect", endpoint, *FILES, "--export", "out", "--json")
    assert (ran.code, ran.err) == (0, "")
    figures = json.loads(ran.out)
    assert figures["nb_jobs_success"] == "2"
    resources = json.loads(heard[0])["events"][0]["data"]["compute_resources"]
    assert [host["name"] for host in resources] == ["b", "c0", "c1", "c10", "c2"]
    rows = (files / "out_jobs.csv").read_text().splitlines()
    # 10 Gflop at 1.5 Mflop/s
    assert rows[1] == (
        'a,w0,flops,0.000000,1,20000.000000,1,COMPLETED_SUCCESSFULLY,0.000000,6666.666667,6666.666667,0.000000,6666.666667,1.000000,0,'
        '-1.000000,""'
    )  # fmt: skip
    assert (files / "out_machine_states.csv").read_text().splitlines()[:2] == [
        "time,nb_sleeping,nb_switching_on,nb_switching_off,nb_idle,nb_computing",
        "0,0,0,0,4,1",
    ]
    again = commands.emulator("batsim", *FILES, "--export", "out")
    assert "out_jobs.csv" in assert_one_line(again, 2)


def test_names_with_commas_keep_the_columns(commands: Commands, files: Path) -> None:
    """And hosts without a platform are as many as the workload says."""
    profiles = {'of "x", y': PROFILES["d10"]}
    content = {"nb_res": 7, "jobs": [job("a,\nb", 'of "x", y')], "profiles": profiles}
    (files / "w.json").write_text(json.dumps(content))
    endpoint = f"ipc://{files}/s.sock"
    with scheduler_at(endpoint, first_fit):
        ran = commands.emulator("batsim", "--connect", endpoint, "-w", "w.json", "--export", "out", "--json")
    assert (ran.code, ran.err) == (0, "")
    assert json.loads(ran.out)["nb_computing_machines"] == "7"
    with (files / "out_jobs.csv").open(newline="") as stream:
        (row,) = csv.DictReader(stream)
    assert (decoded(row["job_id"]), decoded(row["profile"]), row["finish_time"]) == ("a,\nb", 'of "x", y', "10.000000")


WRONG_REPLIES: dict[str, tuple[bytes | None, str]] = {
    "truncated": (b'{"now":0,"ev', "expected a JSON text"),
    "nested": (b"[" * 100_000, "nested too deeply"),
    "number": (b"7", "expected an object with now and events"),
    "unknown job": (
        b'{"now":0,"events":[{"timestamp":0,"type":"EXECUTE_JOB","data":{"job_id":"w0!zz","alloc":"0"}}]}',
        "EXECUTE_JOB: events[0].data.job_id: there is no job w0!zz yet",
    ),
    "100 MB": (b"x" * 100_000_000, "more than 64 MiB"),
    "gone": (None, "the scheduler is gone"),
}


@pytest.mark.parametrize("name", WRONG_REPLIES)
def test_a_hostile_scheduler_neither_hangs_nor_crashes_it(name: str, commands: Commands, files: Path) -> None:
    answer, told = WRONG_REPLIES[name]
    endpoint = f"ipc://{files}/s.sock"

    def reply(frame: bytes, number: int) -> bytes | None:
        return answer if number > 1 else first_fit(frame, number)

    with scheduler_at(endpoint, reply) as heard:
        ran = commands.emulator("batsim", "--connect", endpoint, *FILES, "--export", "out", "--deadline", "20")
    assert told in assert_one_line(ran, 3)
    assert sorted(path.name for path in files.glob("out*")) == []
    if answer is not None and name != "100 MB":
        assert heard[-1].startswith(b"cosched-emulator: ")  # the scheduler is not left waiting


def test_silence_has_deadlines(commands: Commands, files: Path) -> None:
    endpoint = f"ipc://{files}/s.sock"
    ran = commands.emulator("batsim", "--connect", endpoint, *FILES, "--wait", "0.3")
    assert "no scheduler within 0.3 s" in assert_one_line(ran, 3)
    quiet = threading.Event()

    def reply(frame: bytes, number: int) -> bytes:
        if number > 1:
            quiet.wait(10)
        return first_fit(frame, number)

    with scheduler_at(endpoint, reply):
        ran = commands.emulator("batsim", "--connect", endpoint, *FILES, "--deadline", "0.5")
        quiet.set()
    assert "no reply within 0.5 s" in assert_one_line(ran, 3)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("-w", "none.json"), "none.json: expected a file that can be read, got No such file"),
        (("-w", "w.json", "--swf", "x"), "workload.swf: remove it: --workload"),
        (("-w", "w.json", "-p", "none.xml"), "none.xml: expected a file that can be read"),
        (("-w", "w.json", "-p", "w.json"), "w.json:1: expected an XML file of a platform"),
        (("-w", "w.json", "-p", "p.xml"), "p.xml: expected the host master_host for the simulator (--master NAME)"),
        (("-w", "w.json", "--acknowledge-dynamic-jobs"), "needs --enable-dynamic-jobs"),
        (("-w", "w.json", "--nodes", "4", "-E"), "--energy needs the watts of hosts"),
        (("-w", "w.json", "--nodes", "4", "--events", "e.txt"), "e.txt:2: field 'resources': expected hosts 0 to 3"),
        (("-w", "w.json", "--nodes", "4", "--events", "nan.txt"), "nan.txt:1: expected a JSON text"),
        (("-w", "w.json", "-p", "p.xml", "-m", "master", "--nodes", "3"), "cluster.nodes: remove it: the platform"),
        (("-w", "w.json", "--mmax", "3"), "--master-host and --mmax choose among the hosts of a --platform"),
        (("--lublin", "5", "--time-sharing", "exact"), "time_sharing: remove it"),
        (("--connect", "tcp://10.0.0.1:28000", "-w", "w.json", "--nodes", "4"), "not a loopback address"),
    ],
)
def test_wrong_files_and_options_are_told(
    arguments: tuple[str, ...], told: str, commands: Commands, files: Path
) -> None:
    events = '{"timestamp":1,"type":"x"}\n{"timestamp":1,"type":"machine_available","resources":"9"}\n'
    (files / "e.txt").write_text(events)
    (files / "nan.txt").write_text('{"timestamp":1,"type":"x","watts":NaN}\n')
    ran = commands.emulator("batsim", *arguments)
    assert ran.code in (2, 3)
    assert told in ran.err
    assert "Traceback" not in ran.err


CHAIN = {f"p{n}": {"type": "composed", "seq": [f"p{n + 1}"]} for n in range(1999)} | {"p1999": PROFILES["d5"]}
TOWER = {
    "d": PROFILES["d5"],
    "a": {"type": "composed", "seq": ["d"] * 1000},
    "b": {"type": "composed", "seq": ["a"] * 100},
    "c": {"type": "composed", "seq": ["b"] * 20_000},  # 2,000,000,000 tasks
}


@pytest.mark.parametrize(
    ("jobs", "profiles", "told"),
    [
        ([job("a", res=0)], PROFILES, "field 'jobs[0].res': expected a whole number"),
        ([job("\ud800")], PROFILES, "expected a JSON text"),  # half a character: no file can hold it
        ([job("a!b")], PROFILES, "field 'jobs[0].id': expected a name without !"),
        ([job("a"), job("a")], PROFILES, "field 'jobs': expected a name of its own for each job, got 'a'"),
        ([job("a", "x")], PROFILES, "field 'jobs[0].profile': expected the name of a profile"),
        ([job("a", walltime="1")], PROFILES, "field 'jobs[0].walltime': expected a time"),
        ([job("a", cosched={"demand": [1]})], PROFILES, "field 'jobs[0].cosched.demand': expected"),
        ([job("a", cosched="x")], PROFILES, "field 'jobs[0].cosched': expected an object"),
        ([job("a", "uneven")], PROFILES, "field 'jobs[0].profile': expected a profile of 1 hosts"),
        ([job("a", "c", res=3)], {**PROFILES, "c": {"type": "composed", "seq": ["two", "uneven", "two"]}},
            "field 'jobs[0].profile': expected a profile of 3 hosts, as res, got "),
        ([], {"p": {"type": "smpi"}}, "field 'profiles.p.type': expected a kind of profile that the emulator carries out"),
        ([], {"p": {"type": "TraceReplayProfile"}}, "field 'profiles.p.type': expected a kind of profile that the emulator carries"),
        ([], {"p": {"type": ["delay"]}}, "field 'profiles.p.type': expected a string"),
        (
            [],
            {"p": {"type": "ptask_homogeneous", "cpu": 1, "generation_strategy": "all"}},
            "field 'profiles.p.generation_strategy': expected one of DefinedAmountsUsedForEachValue",
        ),
        ([], {"p": {"type": "parallel"}}, "field 'profiles.p.cpu': expected a list"),
        ([], {"p": {"type": "ParallelTaskProfile", "com": [1, 2]}}, "field 'profiles.p.com': expected a number for each pair of hosts"),
        ([], {"p": {"type": "delay"}}, "field 'profiles.p.delay': expected a time"),
        ([], {"p": {"type": "parallel", "cpu": ["x"]}}, "field 'profiles.p.cpu': expected a number"),
        ([], {"p": {"type": "composed", "seq": ["p"]}}, "field 'profiles.p.seq[0]': expected no profile within itself"),
        ([], CHAIN, "field 'profiles.p0': expected at most 100 profiles within each other"),
        ([], dict(reversed(CHAIN.items())), "field 'profiles.p1899': expected at most 100 profiles within each other"),
        ([], TOWER, "field 'profiles.c.seq': expected 1 to 100000 tasks in all, got 200000"),
        ([], {"p": {"type": "composed", "seq": []}}, "field 'profiles.p.seq': expected 1 to 100000 tasks in all, got 0"),
    ],
)  # fmt: skip
def test_wrong_workloads_are_told(jobs: object, profiles: object, told: str, commands: Commands) -> None:
    (commands.folder / "w.json").write_text(json.dumps({"jobs": jobs, "profiles": profiles}))
    ran = commands.emulator("batsim", "-w", "w.json", "--nodes", "4")
    assert assert_one_line(ran, 2).startswith(f"w.json: {told}")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('speed="2Gf"', 'speed="fast"', "field 'c0.speed': expected a speed such as 1Gf"),
        ('radical="0-2,10"', 'radical="0-9999999"', "field 'cluster.radical': expected at most 1048576 hosts"),
        ('radical="0-2,10"', 'radical="a"', "field 'cluster.radical': expected numbers such as 0-3,7"),
        ('speed="2Gf"', 'speed="1.2.3Gf"', "field 'c0.speed': expected a speed"),
        ('speed="2Gf"', 'speed="2kiloF"', "field 'c0.speed': expected a speed such as 1Gf or 1e9flops, got '2kiloF'"),
        ('<link id="l"', '<cabinet radical="1-"', "field 'cabinet.radical': expected numbers such as 0-3,7"),
        ('<link id="l"', '<trace id="l"', "expected zones, hosts, clusters and links, got the element trace"),
        (
            '<link id="l"',
            '<zone id="z">' * 3000 + "</zone>" * 3000 + '<link id="l"',
            "expected fewer zones within each other",
        ),
        ('id="b"', 'id="c0"', "expected hosts with different names, got two of the name c0"),
        ("platform", "other", "expected the element platform"),
    ],
)
def test_wrong_platforms_are_told(old: str, new: str, told: str, commands: Commands, files: Path) -> None:
    (files / "p.xml").write_text(PLATFORM.replace(old, new))
    assert assert_one_line(commands.emulator("batsim", *FILES), 2).startswith(f"p.xml: {told}")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("95:150,10:10", "95:150", "b.wattage_per_state': expected watts of 2 states, as there are speeds, got 1: the watts"),
        (
            "95:150,10:10",
            "95:150,10:10,10:10,9:9",
            "b.wattage_per_state': expected watts of 2 states, as there are speeds, got 4: the speeds of states 2 to 3",
        ),
        ("95:150,10:10", "95:150,-1:1", "b.wattage_per_state': expected a number of watts"),
        ("wattage_per_state", "sleep_pstates", "b.sleep_pstates': expected three numbers of states"),
        ('10:10"', '10:10"/><prop id="sleep_pstates" value="²:1:1"', "b.sleep_pstates': expected three numbers"),
    ],
)  # fmt: skip
def test_what_is_missing_of_watts_matters_for_energy_alone(
    old: str, new: str, told: str, commands: Commands, files: Path
) -> None:
    (files / "p.xml").write_text(PLATFORM.replace(old, new))
    assert assert_one_line(commands.emulator("batsim", *FILES, "-E"), 2).startswith(f"p.xml: field '{told}")
    with scheduler_at(f"ipc://{files}/s.sock", first_fit):
        ran = commands.emulator("batsim", "--connect", f"ipc://{files}/s.sock", *FILES)
    assert ran.code == 0
    assert ran.err.startswith(f"warning: p.xml: field '{told}")
    assert ran.err.endswith(": what it draws is not known, which matters for --energy alone\n")


OTHERS = """\ufeff

<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><config id="General"/><zone id="all" routing="Full">
<cabinet id="k" prefix="k" suffix=".x" radical="3-4" speed="1.0E9flops" bw="1GBps" lat="0us"/>
<peer id="p" speed="2.5gigaflops" bw_in="1GBps" bw_out="1GBps"/>
<host id="a" speed="1500"><prop id="sleep_pstates" value=""/></host>
<host id="b" speed="+.5e3kf, 3Zf"/>
<host id="master_host" speed="1Gf"/>
<router id="r"/><zoneRoute src="k3" dst="a" gw_src="k3" gw_dst="a"/><bypassASroute src="k3" dst="a" gw_src="k3" gw_dst="a"/>
</zone></platform>
"""


def test_a_platform_as_simgrid_reads_it(tmp_path: Path) -> None:
    """Cases 17a and 17b: empty lines at the top, all units of speed, cabinets and peers."""
    (tmp_path / "p.xml").write_text(OTHERS, encoding="utf-8")
    hosts = read_platform(str(tmp_path / "p.xml"))
    assert [(host.name, [state.speed for state in host.states]) for host in hosts] == [
        ("a", [1500]),
        ("b", [5e5, 3e21]),
        ("k3.x", [1e9]),
        ("k4.x", [1e9]),
        ("p", [2.5e9]),
    ]
    assert not any(host.trouble for host in hosts)
    (tmp_path / "p.xml").write_text(OTHERS.replace('suffix=".x"', "suffix"), encoding="utf-8")
    with pytest.raises(InputError, match=r"p\.xml:6: expected an XML file of a platform, got not well-formed"):
        read_platform(str(tmp_path / "p.xml"))


BOMB = "<!DOCTYPE p [<!ENTITY e0 'x'>" + "".join(
    f"<!ENTITY e{number} '{f'&e{number - 1};' * 10}'>" for number in range(1, 12)
)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("<?xml version='1.0' encoding='foo'?><platform/>", "in UTF-8, got unknown encoding: foo"),
        ("<?xml version='1.0' encoding='base64'?><platform/>", "in UTF-8, got 'base64' is not a text encoding"),
        ("<?xml version='1.0' encoding='utf-32'?><platform/>", "in UTF-8, got multi-byte encodings are not supported"),
        (f"{BOMB}]><platform>&e11;</platform>", "got limit on input amplification factor"),
        (f"{BOMB}]><platform id='&e11;'/>", "got limit on input amplification factor"),
        ("<!DOCTYPE p [<!ENTITY f SYSTEM 'file:///etc/passwd'>]><platform>&f;</platform>", "got undefined entity"),
        (f"<platform>{'<zone>' * 100_000}{'</zone>' * 100_000}</platform>", "fewer zones within each other"),
    ],
)
def test_hostile_xml_is_told(text: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "p.xml").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=f"p.xml(:1)?: expected .*{told}"):
        read_platform(str(tmp_path / "p.xml"))


def test_evalys_reads_and_draws_the_jobs(commands: Commands, files: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # evalys and pandas give warnings
        jobset = pytest.importorskip("evalys.jobset", reason="evalys is not installed: pip install evalys")
        with scheduler_at(f"ipc://{files}/s.sock", first_fit):
            ran = commands.emulator("batsim", "--connect", f"ipc://{files}/s.sock", *FILES, "--export", "out")
        assert ran.code == 0
        jobs: Any = jobset.JobSet.from_csv(str(files / "out_jobs.csv"))
        jobs.plot(with_details=True)
    rows = jobs.df.set_index("jobID")
    assert str(rows.allocated_resources["b"]) == "0-2"
    assert rows.finish_time["b"] == 20010
    assert jobs.utilisation.load.max() == 3


def test_energy_by_the_watts_of_nodes(commands: Commands, files: Path) -> None:
    """Nodes can be switched off, at once and for nothing; each process that computes draws more."""
    states = iter(["2-3", "", ""])

    def reply(frame: bytes, number: int) -> bytes:
        answer = json.loads(first_fit(frame, number))
        hosts = next(states, "")
        if hosts:
            data = {"resources": hosts, "state": "1"}
            answer["events"].append({"timestamp": answer["now"], "type": "SET_RESOURCE_STATE", "data": data})
        return json.dumps(answer).encode()

    (files / "w.json").write_text(json.dumps({"jobs": [job("a", "flops", at=5, res=2)], "profiles": PROFILES}))
    endpoint = f"ipc://{files}/s.sock"
    watts = ("--nodes", "4", "--cores", "2", "--idle-w", "100", "--busy-w", "10")
    with scheduler_at(endpoint, reply):
        ran = commands.emulator(
            "batsim", "--connect", endpoint, "-w", "w.json", *watts, "-E", "--export", "out", "--json"
        )
    assert (ran.code, ran.err) == (0, "")
    figures = json.loads(ran.out)
    assert float(figures["consumed_joules"]) == 2 * (100 + 10) * 10  # from the first submission to the last end
    assert (figures["time_sleeping"], figures["nb_machine_switches"]) == ("30.000000", "2")
    assert (files / "out_jobs.csv").read_text().splitlines()[1].split(",")[15] == "2200.000000"
