"""What scontrol and sacctmgr print of a site, and the scenario that an import with it makes."""

from __future__ import annotations

import gzip
import tomllib
from pathlib import Path

import pytest
from tests.processes import ROOT

from cosched_emulator.errors import InputError
from cosched_emulator.workload.sacct.sacct_log import ImportOptions, import_dump
from cosched_emulator.workload.sacct.site_facts import Facts, read_facts
from cosched_plugin.common.limits import Limited

SITE = ROOT.parent / "shared" / "site2026"
NAMES = ("config", "partitions", "nodes", "reservations", "qos", "assoc", "events")
CONFIG = """Configuration data as of 2026-03-15T00:00:00
AccountingStorageEnforce = associations,limits
PriorityType            = priority/multifactor
PriorityDecayHalfLife   = 2-00:00:00
PriorityCalcPeriod      = 00:10:00
PriorityFlags           = NO_FAIR_TREE
PriorityMaxAge          = 7-00:00:00
PriorityWeightAge       = 1000
PriorityWeightFairShare = 5000
PriorityWeightPartition = 600
PriorityWeightQOS       = 900
SchedulerParameters     = bf_max_job_test=70,bf_max_job_user=9
SelectType              = select/cons_tres
SelectTypeParameters    = CR_CORE_MEMORY

Slurmctld(primary) at head is UP
"""
# As `scontrol show partition` prints without -o.
PARTITIONS = """PartitionName=main
   AllowGroups=ALL Default=YES QoS=small
   MaxNodes=UNLIMITED MaxTime=1-00:00:00 Nodes=n[1-3]
   PriorityJobFactor=1 PriorityTier=1 State=UP OverSubscribe=NO

PartitionName=gpu
   Default=NO QoS=N/A MaxNodes=1 MaxTime=UNLIMITED Nodes=n3,g1
   PriorityJobFactor=3 PriorityTier=2 State=UP
"""
NODES = """NodeName=n1 CoresPerSocket=4 CPUTot=8 Gres=(null) OS=Linux 5.4 #1 SMP RealMemory=1000 Sockets=2 State=IDLE ThreadsPerCore=1
NodeName=n2 CoresPerSocket=4 CPUTot=8 Gres=(null) RealMemory=1000 Sockets=2 State=ALLOCATED ThreadsPerCore=1 Comment=a = b
NodeName=n3 CoresPerSocket=4 CPUTot=8 Gres=(null) RealMemory=1000 Sockets=2 State=IDLE+CLOUD+POWERED_DOWN ThreadsPerCore=1
NodeName=g1 CoresPerSocket=4 CPUTot=8 Gres=gpu:a100:4(S:0-1) RealMemory=2000 Sockets=2 State=DOWN* ThreadsPerCore=1
"""
RESERVATIONS = """ReservationName=maint StartTime=2026-03-02T12:00:00 EndTime=2026-03-02T13:00:00 Nodes=n[1-2] Flags=MAINT,WEEKLY
   NodeName=n1 CoreIDs=0-1 Users=root
"""
QOS = """Name|Priority|GraceTime|Preempt|GrpTRES|GrpJobs|MaxTRESPU|MaxJobsPU|MaxTRESPA|MaxJobsPA|MaxWall
normal|10|00:00:00|||||4|||
small|0|00:00:00||cpu=6,gres/gpu=-1||gres/gpu=2,node=1|||3|1-00:00:00
"""
ASSOC = """Cluster|Account|User|Partition|Share|GrpJobs|GrpTRES|MaxJobs|ParentName
c|root|||1||||
c|lab|||3||cpu=12||root
c|lab|ann||1|||7|
c|lab|bob||parent|||7|
c|sub|||2||||lab
c|sub|eve||1||cpu=5|9|
"""
EVENTS = """Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User
c|n1|2026-03-02T09:00:00|2026-03-02T11:00:00|DRAIN|a | bar|root(0)
c|n2|2026-03-02T09:00:00|2026-03-02T11:00:00|DRAIN|disk|root(0)
c|n3|2026-02-02T09:00:00|2026-02-03T11:00:00|DOWN|long ago|root(0)
c||2026-03-02T09:30:00|Unknown||Cluster Registered TRES|
"""
JOBS = """JobIDRaw|JobID|User|Partition|State|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|AllocNodes|NCPUS|NodeList|QOS|Account|ReqTRES|SubmitLine
1|1|ann|main|COMPLETED|2026-03-02T10:00:00|2026-03-02T10:00:00|2026-03-02T10:00:00|2026-03-02T10:10:00|600|20|1|2|n1|normal|lab|cpu=2,mem=100M,node=1|sbatch -J a job.sh
2|2|eve|gpu|FAILED|2026-03-02T10:01:00|2026-03-02T10:10:00|2026-03-02T10:11:00|2026-03-02T10:21:00|600|20|1|4|g1|normal|sub|cpu=4,gres/gpu:a100=2,gres/gpu=2,node=1|sbatch -d afterok:1 --nice=50 job.sh
4|3_0|ann|main|COMPLETED|2026-03-02T10:02:00|2026-03-02T10:02:00|2026-03-02T10:12:00|2026-03-02T10:22:00|600|20|1|2|n1|small|lab|cpu=2,node=1|sbatch --array=0-1%1 job.sh
5|3_1|ann|main|COMPLETED|2026-03-02T10:02:00|2026-03-02T10:22:00|2026-03-02T10:22:00|2026-03-02T10:32:00|600|20|1|2|n1|small|lab|cpu=2,node=1|sbatch --array=0-1%1 job.sh
6|6|ann|main|COMPLETED|2026-03-02T10:03:00|2026-03-02T10:33:00|2026-03-02T10:43:00|2026-03-02T10:53:00|600|20|1|2|n1|small|lab|cpu=2,node=1|sbatch --begin=now+30minutes job.sh
7|7|ann|main|COMPLETED|2026-03-02T10:04:00|2026-03-02T10:34:00|2026-03-02T10:44:00|2026-03-02T10:54:00|600|20|1|2|n1|small|lab|cpu=2,node=1|sbatch job.sh
8|8|bob|main|CANCELLED by 7|2026-03-02T10:05:00|2026-03-02T10:05:00|None|2026-03-02T10:15:00|0|20|0|4|None assigned|normal|lab|cpu=4,node=2|sbatch job.sh
"""  # noqa: E501 - a row is a line
FILES = dict(zip(NAMES, (CONFIG, PARTITIONS, NODES, RESERVATIONS, QOS, ASSOC, EVENTS), strict=True))


def written(folder: Path, files: dict[str, str]) -> tuple[str, ...]:
    for name, text in files.items():
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    return tuple([str(folder / f"{name}.txt") for name in files])


@pytest.mark.skipif(not SITE.exists(), reason="the site of 2026 is not beside the checkout")
def test_the_files_of_a_whole_site_are_read() -> None:
    facts = read_facts([str(SITE / f"{name}.txt") for name in NAMES])
    assert facts.config is not None
    assert facts.config.number("PriorityWeightQOS") == 200_000
    assert facts.config.seconds("PriorityMaxAge") == 14 * 86_400
    assert [(each.name, len(each.nodes), each.max_time_s, each.default) for each in facts.partitions or ()] == [
        ("standard", 360, 172_800, True),
        ("short", 400, 7_200, False),
        ("gpu", 40, 172_800, False),
    ]
    nodes = facts.nodes or ()
    assert (len(nodes), nodes[0].memory_mb, nodes[399].resources) == (400, 524_288, (("gpu", 4),))
    assert [each.priority for each in facts.qos or ()] == [0, 1, 2]
    assert [(len(each.nodes), each.end_s - each.begin_s) for each in facts.reservations or ()] == [(400, 36_000)]
    assert len(facts.outages or ()) == 24
    assert {each.parent for each in facts.associations or () if not each.user} == {"", "root"}


def test_a_job_comes_no_sooner_than_those_that_it_waits_for(tmp_path: Path) -> None:
    """One that was held without a reason in the dump, and an array whose tasks have later numbers than the job that waits for it."""
    header = JOBS.splitlines()[0]
    day = "2026-03-02T10:"
    times = f"{day}{{2}}:00|{day}{{3}}:00|{day}{{3}}:00|{day}{{4}}:00"
    row = f"{{0}}|{{1}}|ann|main|COMPLETED|{times}|60|20|1|2|n1|normal|lab|cpu=2|sbatch {{5}} x"
    rows = [
        row.format(*cells)
        for cells in (
            (1, 1, "00", 10, 11, ""),
            (2, 2, "01", 11, 12, "-d afterok:1"),
            (4, 4, "02", 15, 16, "-d afterok:3"),
            (5, "3_0", "02", "02", 14, "--array=0-1"),
            (3, "3_1", "02", "02", 15, "--array=0-1"),
        )
    ]
    (tmp_path / "jobs.txt").write_text("\n".join([header, *rows]) + "\n")
    facts = written(tmp_path, FILES)
    import_dump(str(tmp_path / "jobs.txt"), tmp_path / "out", ImportOptions(facts=facts))
    log = [line.split() for line in (tmp_path / "out/trace.swf").read_text().splitlines() if line[0] != ";"]
    assert [(row[0], row[1]) for row in log] == [("5", "0"), ("3", "0"), ("4", "0"), ("1", "480"), ("2", "480")]


def test_facts_of_every_form_are_read(tmp_path: Path) -> None:
    facts = read_facts(written(tmp_path, FILES))
    main, gpu = facts.partitions or ()
    assert (main.nodes, main.qos, main.max_time_s, main.max_nodes) == (("n1", "n2", "n3"), "small", 86_400, None)
    assert (gpu.nodes, gpu.tier, gpu.job_factor, gpu.max_nodes, gpu.max_time_s) == (("n3", "g1"), 2, 3, 1, None)
    assert [node.resources for node in facts.nodes or ()] == [(), (), (), (("gpu:a100", 4),)]
    assert [node.up for node in facts.nodes or ()] == [True, True, True, False]
    small = (facts.qos or ())[1]
    assert (small.together, small.of_user, small.of_account) == (
        Limited(cpus=6),
        Limited(gpus=2, nodes=1),
        Limited(jobs=3),
    )
    assert small.others == ("MaxWall",)
    assert [(each.user, each.share, each.each_jobs) for each in facts.associations or ()][2:4] == [
        ("ann", 1, 7),
        ("bob", None, 7),
    ]
    packed = tmp_path / "qos.txt.gz"
    packed.write_bytes(gzip.compress(QOS.encode()))
    assert read_facts([str(packed)]) == Facts(qos=facts.qos)
    packed.write_bytes(packed.read_bytes()[:-12])
    with pytest.raises(InputError, match=r"qos\.txt\.gz: expected a file that can be read, got not a whole gzip file"):
        read_facts([str(packed)])
    assert read_facts(written(tmp_path, {"none": "No reservations in the system\n"})) == Facts(reservations=())


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("qos", "Name|", "Title|", "qos.txt:1: expected what scontrol show config or scontrol show partition"),
        ("qos", "|10|", "|ten|", "qos.txt:2: field 'Priority': expected a whole number, got 'ten'"),
        ("qos", "cpu=6", "cpu:6", "qos.txt:3: field 'GrpTRES': expected amounts such as cpu=4"),
        ("partitions", "MaxTime=UNLIMITED", "MaxTime=soon", "partitions.txt:6: field 'MaxTime': expected a duration"),
        (
            "partitions",
            "MaxTime=UNLIMITED",
            "MaxTime=1:100:00",
            "partitions.txt:6: field 'MaxTime': expected a duration",
        ),
        ("nodes", "Gres=gpu:a100:4(", "Gres=gpu:a b:4(", "nodes.txt:4: field 'Gres': expected resources such as"),
        ("nodes", "NodeName=n2", "NodeName=", "nodes.txt:2: field 'NodeName': expected a name, got ''"),
        ("reservations", "EndTime=2026-03-02T13", "EndTime=2026-03-02T25", "field 'EndTime': expected a time such as"),
        ("assoc", "c|lab|ann||1|||7|", "c|lab|ann", "assoc.txt:4: expected 9 cells, got 3"),
        ("events", "2026-03-02T11:00:00", "noon", "events.txt:2: field 'TimeEnd': expected a time such as"),
        ("config", "PriorityType  ", "Priority", None),
        ("config", "= select/cons_tres", "", "config.txt:13: expected a line with key = value"),
    ],
)
def test_a_file_with_an_error_gets_one_clear_line(
    tmp_path: Path, name: str, old: str, new: str, said: str | None
) -> None:
    files = written(tmp_path, {name: FILES[name].replace(old, new, 1)})
    if said is None:
        assert read_facts(files).config is not None
        return
    with pytest.raises(InputError) as caught:
        read_facts(files)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_two_files_of_one_kind_are_refused(tmp_path: Path) -> None:
    files = written(tmp_path, {"qos": QOS, "more": QOS})
    with pytest.raises(InputError, match=r"more\.txt: expected a file of another kind than .*qos\.txt, got qos again"):
        read_facts(files)


def test_an_import_has_what_a_site_tells(tmp_path: Path) -> None:
    files = written(tmp_path, FILES)
    (tmp_path / "jobs.txt").write_text(JOBS, encoding="utf-8")
    report = import_dump(str(tmp_path / "jobs.txt"), tmp_path / "out", ImportOptions(facts=files))
    scenario = tomllib.loads((tmp_path / "out/scenario.toml").read_text())
    machine = tomllib.loads((tmp_path / "out/machine.toml").read_text())
    assert [(each["count"], each["memory_mb"], each.get("resources")) for each in machine["nodes"]] == [
        (3, 1000, None),
        (1, 2000, "gpu:a100:4"),
    ]
    policy = scenario["policy"]
    assert (policy["preset"], policy["shape"], policy["backfill"]) == ("slurm", "threads", {"depth": 70})
    assert policy["order"] == {
        "age": 1000, "fair_share": 5000, "size": 0, "max_age_s": 604_800, "half_life_s": 172_800, "period_s": 600,
        "shares": {"lab": 3, "lab/1": 1, "lab/3": 1, "lab/sub": 2, "lab/sub/2": 1},
    }  # fmt: skip
    assert scenario["partitions"] == [
        {"name": "main", "nodes": "0-2", "max_time_s": 86_400, "default": True},
        {"name": "gpu", "nodes": "2-3", "max_nodes": 1, "tier": 2},
    ]
    assert scenario["accounts"] == [{"name": "lab", "parent": "root"}, {"name": "sub", "parent": "lab"}]
    assert scenario["limits"] == [
        {"qos": "normal", "each": "user", "jobs": 4},
        {"qos": "small", "cpus": 6},
        {"qos": "small", "each": "user", "gpus": 2, "nodes": 1},
        {"qos": "small", "each": "account", "jobs": 3},
        {"partition": "main", "cpus": 6},
        {"partition": "main", "each": "user", "gpus": 2, "nodes": 1},
        {"partition": "main", "each": "account", "jobs": 3},
        {"account": "lab", "cpus": 12},
        {"account": "lab", "each": "user", "jobs": 7},
        {"account": "sub", "each": "user", "jobs": 9},
        {"user": "2", "account": "sub", "cpus": 5},
    ]
    assert scenario["script"] == [
        {"at_s": 0, "do": "drain-nodes", "nodes": "0-1", "until_s": 3600},
        {"at_s": 7200, "do": "reserve", "nodes": "0-1", "until_s": 10_800},
    ]
    header, *rows = (tmp_path / "out/jobs.csv").read_text().splitlines()
    said = {
        row.partition(",")[0]: {
            name: cell for name, cell in zip(header.split(","), row.split(","), strict=True) if cell
        }
        for row in rows
    }
    assert said["1"] == {
        "job": "1", "ppn": "2", "ran_on": "0", "priority": "1100", "memory_mb": "50", "partition": "main", "qos": "normal",
        "account": "lab",
    }  # fmt: skip
    assert said["2"]["priority"] == "1450"  # 900 of its QOS, 600 of its partition, less 50
    assert (said["2"]["after"], said["2"]["resources"]) == ("afterany:1", "gpu:a100:2")
    assert [(said[job]["array"], said[job]["at_once"]) for job in "45"] == [("3", "1"), ("3", "1")]
    assert said["6"]["begin_s"] == "1800"
    assert (said["8"]["cancel_s"], said["8"]["ppn"]) == ("600", "2")
    log = [line.split() for line in (tmp_path / "out/trace.swf").read_text().splitlines() if line[0] != ";"]
    assert {row[0]: (row[1], row[2]) for row in log} == {
        "1": ("0", "0"), "2": ("60", "600"), "4": ("120", "600"), "5": ("120", "1200"), "6": ("180", "2400"), "8": ("300", "-1"),
        "7": ("2040", "600"),  # nothing tells what it waited for before it was eligible
    }  # fmt: skip
    assert set(report.unmodelled) >= {
        "bf_max_job_user=9",
        "limits MaxWall of 1 QOS or associations",
        "1 reservations that recur: one time of each is in the run",
        "1 reservations of some cores: their whole nodes are reserved",
    }


@pytest.mark.parametrize("anonymous", [False, True])
def test_what_lacks_the_nodes_is_told(tmp_path: Path, anonymous: bool) -> None:
    files = written(tmp_path, {name: FILES[name] for name in ("partitions", "events", "assoc", "qos")})
    (tmp_path / "jobs.txt").write_text(JOBS, encoding="utf-8")
    report = import_dump(str(tmp_path / "jobs.txt"), tmp_path / "out", ImportOptions(facts=files, anonymous=anonymous))
    text = (tmp_path / "out/scenario.toml").read_text()
    assert not {"partitions", "script"} & tomllib.loads(text).keys()
    assert "1 jobs had gpu, which no node is known to have" in report.unmodelled
    assert report.facts == ("partitions", "qos", "associations", "outages")
    assert "; not given: config, nodes, reservations" in report.of_facts()
    assert any("it is not known which nodes" in told for told in report.unmodelled)
    assert ("lab" in text + (tmp_path / "out/jobs.csv").read_text()) is not anonymous


def test_a_tree_of_accounts_tells_their_parents(tmp_path: Path) -> None:
    tree = """Cluster|Account|User|Share|GrpTRES
c|root||1|
c| root|root|1|
c| lab||3|cpu=12
c|  lab|ann|1|
c|  sub||2|
c|   sub|eve|1|
c| sea||1|
"""
    found = read_facts(written(tmp_path, {"assoc": tree})).associations or ()
    assert [(each.account, each.user, each.parent) for each in found] == [
        ("root", "", ""), ("root", "root", ""), ("lab", "", "root"), ("lab", "ann", ""), ("sub", "", "lab"), ("sub", "eve", ""),
        ("sea", "", "root"),
    ]  # fmt: skip
    flat = "\n".join([line.replace("| ", "|").replace("| ", "|").replace("| ", "|") for line in tree.splitlines()])
    (tmp_path / "jobs.txt").write_text(JOBS, encoding="utf-8")
    files = written(tmp_path, {"assoc": flat, "nodes": NODES})
    report = import_dump(str(tmp_path / "jobs.txt"), tmp_path / "out", ImportOptions(facts=files))
    told = "accounts without a known parent (sacctmgr show assoc tree): below the root"
    assert f"3 {told}" in report.unmodelled
    assert tomllib.loads((tmp_path / "out/scenario.toml").read_text())["accounts"] == [
        {"name": name, "parent": "root"} for name in ("lab", "sub", "sea")
    ]


def test_jobs_that_never_ran_have_the_cpus_that_they_asked_for_and_work_as_others_do(tmp_path: Path) -> None:
    header = JOBS.partition("\n")[0]
    rows = [
        # Ten small jobs use a hundredth of their limits, one large job half of its own.
        *(
            f"{job}|{job}|ann|main|COMPLETED|1000|1000|1000|1012|12|20|1|1|n1|normal|lab|cpu=1,node=1|sbatch x"
            for job in range(1, 11)
        ),
        "11|11|ann|main|COMPLETED|1000|1000|1000|1600|600|20|2|90|n[2-3]|normal|lab|cpu=90,node=2|sbatch x",
        "12|12|ann|main|CANCELLED by 7|1000|1000|None|1100|0|20|2|0|None assigned|normal|lab|cpu=16,mem=320M,node=2|sbatch x",
        "13|13|ann|main|CANCELLED by 7|1000|Unknown|None|1100|0|20|1|0|None assigned|normal|lab|cpu=1,node=1|sbatch -H x",
    ]
    (tmp_path / "jobs.txt").write_text("\n".join([header, *rows]), encoding="utf-8")
    files = written(tmp_path, {name: FILES[name] for name in ("nodes", "partitions", "config")})
    report = import_dump(str(tmp_path / "jobs.txt"), tmp_path / "out", ImportOptions(facts=files))
    log = [line.split() for line in (tmp_path / "out/trace.swf").read_text().splitlines() if line[0] != ";"]
    (waited,) = [row for row in log if row[0] == "12"]
    assert (waited[4], waited[7]) == ("16", "16")
    assert int(waited[3]) == round(1200 * (10 * 12 + 90 * 600) / (10 * 1200 + 90 * 1200))
    lines = [line.split(",") for line in (tmp_path / "out/jobs.csv").read_text().splitlines()]
    said = {line[0]: dict(zip(lines[0], line, strict=True)) for line in lines}
    assert (said["12"]["ppn"], said["12"]["memory_mb"], said["12"]["begin_s"]) == ("8", "20", "")
    assert (said["13"]["cancel_s"], said["13"]["begin_s"]) == ("100", "101")  # it was held until it was cancelled
    assert not any("no node in common" in remark for remark in report.remarks)
