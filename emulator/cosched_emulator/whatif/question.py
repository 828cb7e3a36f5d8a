"""From a site and its log to the studies that answer: first every candidate, then the best ones under changed assumptions.

Both are one study's folder: the second plan has all runs of the first, which are there by then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, Final

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.offered import SHAPE
from cosched_emulator.results.files.run_folder import part_name
from cosched_emulator.scenario.machine import build_machine, cores_of, most_alike
from cosched_emulator.scenario.reader import scenario_of_table
from cosched_emulator.scenario.scenario_jobs import read_log
from cosched_emulator.studies.cells import Plan, make_plan, merged
from cosched_emulator.studies.experiment import read_experiment
from cosched_emulator.whatif.candidates import (
    ALONE,
    BANDWIDTH,
    BY_CORES,
    CANDIDATES,
    CHANGES,
    CONTENTIONS,
    DEFAULT_SCALE,
    FORMULA,
    LOGGED,
    PAIRS,
    SHAKES,
    TOLD,
    WATTS,
    Candidate,
    Change,
    Place,
    Scale,
)
from cosched_emulator.whatif.levers import Site, levers_of
from cosched_emulator.whatif.measures import MEASURES, OF_JOBS
from cosched_emulator.whatif.programs import drawn_programs, other_programs
from cosched_emulator.whatif.site_sections import AS_THEY_ARE, left_out, of_facts
from cosched_emulator.whatif.warm import WHOLE, WholeRun, script_of_window, warm_window
from cosched_emulator.workload.atomic_file import make_folder
from cosched_emulator.workload.job import Workload
from cosched_emulator.workload.jobs_in_columns import columns_of
from cosched_emulator.workload.sacct.sacct_log import assumptions_of, names_beside, sharing_in
from cosched_emulator.workload.side_files.annotations import Annotations, read_annotations
from cosched_emulator.workload.swf.swf_writer import write_swf
from cosched_hwmodel.errors import Unwanted
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.config import PolicyChoice, choose, from_table
from cosched_plugin.protocol.messages import NodeClass

PRESENT: Final = "present"
_MISSING: Final = {
    PAIRS: "no table of measured pairs was given (--pairs FILE)",
    BANDWIDTH: "the memory bandwidth of the nodes was not given (--bandwidth-gbs, or a file of node classes)",
}
_ONE_THREAD: Final = "nodes have one hardware thread a core, and the formula needs two"
_WINDOWS: Final = "windows"  # beside it: a log for each


@dataclass(frozen=True, slots=True)
class Question:
    """A site, its log, and what is asked."""

    site: Mapping[str, Any]  # sections of a scenario, with a log; paths from the current folder
    policy: str | Mapping[str, Any] | None = None  # the present one; None: EASY
    settings: tuple[str, ...] = ()  # on top of it
    scale: Scale = DEFAULT_SCALE
    asked: bool = False  # whether somebody asked for that policy, and no file of the site
    only: tuple[str, ...] = ()  # the candidates and levers that are run, by name; empty: all

    @property
    def pairs(self) -> str | None:
        """Return the table of measured co-runs; None: there is none."""
        file: str | None = self.site.get("truth", {}).get("pairs")
        return file

    @property
    def names_machine(self) -> bool:
        """Tell whether the site says what its nodes are like, and not only how many there are."""
        cluster = self.site.get("cluster", {})
        return bool(cluster.keys() - {"nodes", "processors", "preset"}) or cluster.get("preset", SHAPE) != SHAPE

    @property
    def alone(self) -> tuple[str, ...]:
        """Return the setting for jobs alone on nodes: by default, and on assumed nodes, as these have two threads a core."""
        if self.policy is None and not self.settings:
            return ALONE
        said = isinstance(self.policy, Mapping) and "shape" in self.policy
        if self.names_machine or said or any(setting.startswith("shape=") for setting in self.settings):
            return ()
        return ALONE if part_name(self._choice(()).settings, "shape") == "threads" else ()

    @property
    def present(self) -> PolicyChoice:
        """Return the present policy; raises UsageError."""
        return self._choice(self.alone)

    def _choice(self, more: tuple[str, ...]) -> PolicyChoice:
        policy, settings = "easy" if self.policy is None else self.policy, (*self.settings, *more)
        return from_table(policy, settings) if isinstance(policy, Mapping) else choose(policy, settings)

    @property
    def of_others(self) -> tuple[str, ...]:
        """Return the settings of candidates that do not share nodes: jobs get the same shape as today."""
        shape = part_name(self.present.settings, "shape")
        return () if shape is None else (f"shape={shape}",)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A question that is checked: windows, machines, and which candidates can be run."""

    question: Question
    log: Workload
    folder: Path
    said: Annotations | None
    window_jobs: int
    firsts: tuple[int, ...]  # of each window
    base: Mapping[str, Any]  # scenario of all runs
    hardware: Mapping[str, Mapping[str, Any]]  # sections by contention
    candidates: tuple[Candidate, ...]
    left_out: tuple[tuple[Candidate, str], ...]  # with the reason
    assumptions: tuple[str, ...]
    # Another draw of which job is which program; None: nothing is drawn, or nothing else can be
    other_programs: str | None
    by_cores: frozenset[str]  # ways of contention in which jobs share nodes by cores today
    levers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # sections that each changes, by name
    names: Mapping[str, str] = field(default_factory=dict)  # number of a program or user -> its name, for people
    whole: WholeRun | None = None  # the present policy over the whole log; None: windows start on an empty machine

    @property
    def sharing(self) -> tuple[str, ...]:
        """Return what the log says of sharing without any run: of Slurm's accounting alone."""
        return sharing_in(self.assumptions)

    def name_of(self, program: str) -> str:
        """Return a program or user as people know it: the log has numbers."""
        label = program if program.startswith("user ") else f"program {program}"
        return self.names.get(label, label)

    def place(self, contention: str) -> Place:
        """Return where the runs of a way of contention are in the study, with no assumption changed."""
        return Place(contention, variant=BY_CORES if contention in self.by_cores else LOGGED)

    def present_place(self, place: Place, change: Change) -> Place:
        """Return where the present policy's runs are for a changed assumption: with the others, if that changes nothing for them.

        What a policy knows of neighbours does not, and what neighbours do to each other does not where jobs are alone.
        """
        if change.axis == "beliefs":
            return replace(place, belief=TOLD)
        contention = place.hardware.partition(",")[0]
        alone = change.axis == "hardware" and contention == FORMULA and bool(self.question.alone)
        return replace(place, hardware=contention) if alone else place

    @property
    def has_users(self) -> bool:
        """Tell whether the log says whose its jobs are."""
        jobs = columns_of(self.log.jobs)
        return any(jobs.each(jobs.user))

    @property
    def windows(self) -> tuple[str, ...]:
        """Return the names of the windows."""
        return tuple(f"w{number}" for number in range(1, len(self.firsts) + 1))

    @property
    def every(self) -> int:
        """Return which windows changed assumptions are run on: all, where there are few."""
        scale = self.question.scale
        return scale.every if len(self.firsts) > 2 * scale.every else 1

    def draws(self, contention: str) -> bool:
        """Tell whether what jobs do to each other is drawn."""
        return _draws(contention, self.question, self.said)


def prepare_question(question: Question, folder: Path) -> Prepared:
    """Check a question; programs are drawn into files of ``folder``. Raises what a scenario raises."""
    workload = _workload(question)
    workload |= {"log_memory": False, "limits": "none", "cap_runs": False}
    log = read_log(scenario_of_table({"workload": workload}, {}).workload)
    jobs = len(log.jobs)
    firsts, window_jobs = _windows(jobs, question.scale)
    margin = int(window_jobs * question.scale.margin)
    base = {
        "seed": question.site.get("seed", 1),
        "workload": workload,
        **{name: question.site[name] for name in AS_THEY_ARE if question.site.get(name)},
        "results": {"warmup": margin, "cooldown": margin},
    }
    said = None if workload.get("annotations") is None else read_annotations(workload["annotations"])
    notes = [
        f"{len(firsts)} windows of {window_jobs:,} jobs of the {jobs:,} in the log; the first and last {margin} of "
        "each are run, but do not count",
        "users do not react to the schedule, and no job is killed at its limit",
        *of_facts(question.site, said),
        *left_out(question.site),
        *_of_import(question, str(workload["swf"])),
    ]
    hardware: dict[str, Mapping[str, Any]] = {}
    for name, wanted in ((FORMULA, True), (PAIRS, question.pairs is not None), (BANDWIDTH, _has_bandwidth(question))):
        if wanted:
            hardware[name] = _hardware(name, question, log, folder, notes, said)
    by_cores = frozenset(name for name, sections in hardware.items() if _by_cores(question, sections, notes, name))
    notes += _by_chance(question, hardware)
    sections = {**base, "cluster": hardware[FORMULA]["cluster"], "script": question.site.get("script", ())}
    levers = [*levers_of(Site(sections, said, folder, by_priority=_by_priority(question)))]
    reasons = [(one, _why_not(one, question, log, hardware)) for one in CANDIDATES]
    reasons = [*_chosen([*reasons, *((one, one.lacks) for one, _ in levers)], question.only)]
    return Prepared(
        question,
        log,
        folder,
        said,
        window_jobs,
        firsts,
        base,
        hardware,
        tuple(candidate for candidate, reason in reasons if not reason),
        tuple((candidate, reason) for candidate, reason in reasons if reason),
        tuple(notes),
        _other_programs(question, log, folder, said, hardware),
        by_cores,
        {one.policy: sections for one, sections in levers if (one, "") in reasons and sections is not None},
        names_beside(str(workload["swf"])),
    )


def _chosen(reasons: Sequence[tuple[Candidate, str]], only: tuple[str, ...]) -> Iterator[tuple[Candidate, str]]:
    """Yield each candidate with why it is left out, if it is; raises ConfigurationError for an unknown one that is asked for."""
    names = [one.policy for one, _ in reasons]
    for name in only:
        if name not in names:
            raise ConfigurationError.unknown_name("--candidate", name, names)
    for one, reason in reasons:
        yield one, reason or "others were asked for" * bool(only and one.policy not in only)


def _by_chance(question: Question, hardware: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield a note where jobs may share cores today, too."""
    by_threads = any(item.threads_per_core > 1 for item in _machine(hardware[FORMULA]))
    if by_threads and "shape=nodes" not in question.of_others:
        yield f"{FORMULA}: today a job takes any free hardware threads, so two jobs may share a core by chance"


def _draws(contention: str, question: Question, said: Annotations | None) -> bool:
    """Tell whether what jobs do to each other is drawn, as the site does not say it."""
    if contention == PAIRS:
        return not (said and said.values["name"])
    told = any(key in question.site.get("workload", {}) for key in CONTENTIONS[contention].workload)
    return not told and not (contention == FORMULA and said and said.values["usage"])


def _has_bandwidth(question: Question) -> bool:
    """Tell whether the site says what memory bandwidth its nodes have."""
    return question.names_machine and any(item.memory_bandwidth_mbs for item in _machine(question.site))


def _workload(question: Question) -> dict[str, Any]:
    """Return the site's section of jobs; raises ConfigurationError unless it is a whole log."""
    workload = dict(question.site.get("workload", {}))
    if workload.get("swf") is None:
        raise ConfigurationError("workload.swf", "a log (--swf FILE, or [workload] swf in the site's file)", "none")
    if workload["swf"] == "-":
        raise ConfigurationError("workload.swf", "a file: it is read for each window", "standard input")
    for key in ("first", "jobs"):
        if workload.get(key):
            raise ConfigurationError(
                f"workload.{key}", Unwanted("windows of the whole log are run"), str(workload[key])
            )
    return workload


def _windows(jobs: int, scale: Scale) -> tuple[tuple[int, ...], int]:
    """Return the first job of each window, spread evenly over the log, and the length of all."""
    count = max(1, min(scale.windows, jobs // scale.fewest))
    length = min(scale.jobs, jobs // count)
    step = (jobs - length) / max(1, count - 1)
    return tuple(round(number * step) for number in range(count)), length


def _hardware(
    name: str, question: Question, log: Workload, folder: Path, notes: list[str], said: Annotations | None
) -> dict[str, Any]:
    """Return the sections of one way of contention, and note what it assumes."""
    contention = CONTENTIONS[name]
    cluster = dict(question.site.get("cluster", {}))
    truth = {key: value for key, value in question.site.get("truth", {}).items() if key == "composition"}
    workload = dict(contention.workload) if _draws(name, question, said) else {}
    if name == FORMULA and question.names_machine and _one_thread(_machine(question.site)):
        notes.append(f"{name}: jobs run as long as in the log: {_ONE_THREAD}")
        return {"cluster": _with_watts(cluster, notes, name), "truth": {**truth, "contention": "none"}, "workload": {}}
    notes.append(f"{name}: {contention.what}")
    if not question.names_machine:
        processors = cluster.get("nodes") or cluster.get("processors") or log.processors
        if processors is None:
            expected = "a number of nodes (--nodes), or a file of node classes (--machine): the log names no machine"
            raise ConfigurationError("cluster.nodes", expected, "none")
        nodes = -(-processors // int(contention.node.split("x")[1]))
        cluster = {"nodes": nodes, "preset": contention.node}
        notes.append(
            f"{name}: {nodes} nodes of {contention.node} (sockets x cores x threads), because the site names no shape"
        )
    cluster = _with_watts(cluster, notes, name)
    notes += [
        f"{name}: what each job uses of its nodes is drawn from the paper's mix {mix}" for mix in workload.values()
    ]
    if name == PAIRS:
        assert question.pairs is not None
        truth["pairs"] = question.pairs
        if said and said.values["name"]:
            notes.append(f"{name}: jobs that annotations name are programs of {question.pairs}; others do not share")
        else:
            workload["annotations"] = str(drawn_programs(question.pairs, log, folder, said, draw=1))
            notes.append(f"{name}: each user and program of the log is a random program of {question.pairs}")
            notes.append(f"{name}: a node may hold another number of a job's processes than in the log")
    return {"cluster": cluster, "truth": {**truth, **contention.truth}, "workload": workload}


def _with_watts(cluster: Mapping[str, Any], notes: list[str], name: str) -> dict[str, Any]:
    """Return the cluster with watts; where the site names none, half of a busy node's are those of an idle one."""
    if "file" in cluster or "idle_w" in cluster:
        return dict(cluster)
    idle_w, busy_w = WATTS
    cores = _machine({"cluster": cluster})[0]
    per_core = busy_w / (cores.cores)
    notes.append(f"{name}: an idle node takes half the power of a busy one (--idle-w, --busy-w)")
    return {**cluster, "idle_w": float(idle_w), "busy_w": per_core}


def _machine(sections: Mapping[str, Any]) -> tuple[NodeClass, ...]:
    return build_machine(scenario_of_table({"cluster": sections["cluster"]}, {}).cluster)


def _by_cores(question: Question, sections: Mapping[str, Any], notes: list[str], name: str) -> bool:
    """Tell whether several processors of the log are one node by assumption alone: then no job has nodes of its own today."""
    if not question.alone or question.names_machine:
        return False
    (node,) = _machine(sections)
    if node.cores < 2:
        return False
    notes.append(f"{name}: jobs share nodes by cores, and slow each other down, under the present policy, too")
    return True


def _of_import(question: Question, log: str) -> Iterator[str]:
    """Yield what was assumed when the log was made of Slurm's accounting."""
    classes = _machine(question.site) if question.names_machine else ()
    yield from assumptions_of(log, sum(item.nodes for item in classes), cores_of(classes))


def _one_thread(classes: tuple[NodeClass, ...]) -> bool:
    """Tell whether the formula says nothing of some nodes: what jobs on other cores do to each other is in the log's run times."""
    return any(item.threads_per_core < 2 for item in classes)


def _by_priority(question: Question) -> bool:
    """Tell whether the present policy goes by the priority that jobs come with."""
    return part_name(question.present.settings, "order") == "multifactor"


def _why_not(candidate: Candidate, question: Question, log: Workload, hardware: Mapping[str, Mapping[str, Any]]) -> str:
    """Return why a policy cannot be run; empty if it can."""
    if not candidate.shares and choose(candidate.policy, question.of_others).settings == question.present.settings:
        return "it is the present policy"
    if candidate.contention not in hardware:
        return _MISSING[candidate.contention]
    classes = _machine(hardware[candidate.contention])
    if candidate.shares and candidate.contention == FORMULA and _one_thread(classes):
        return _ONE_THREAD
    if candidate.contention == PAIRS and all(item.cores < 2 for item in classes):
        return "it needs nodes with two cores or more"
    if candidate.alike and int(columns_of(log.jobs).processes.array.max()) > most_alike(classes):
        return "it gives a job nodes of one kind, and a job of the log is larger than each kind"
    return ""


def _other_programs(
    question: Question, log: Workload, folder: Path, said: Annotations | None, hardware: Mapping[str, Mapping[str, Any]]
) -> str | None:
    """Return the file of another draw of programs than that of the hardware; None: nothing is drawn, or nothing else can be."""
    first = hardware.get(PAIRS, {}).get("workload", {}).get("annotations")
    if first is None or question.pairs is None:
        return None
    return other_programs(question.pairs, log, folder, said, first)


# ---------------------------------------------------------------- studies


def study_of(prepared: Prepared, best: Mapping[str, Candidate] | None = None) -> Plan:
    """Return the plan of the candidates, or, with the best one of each contention, that plan with changed assumptions too."""
    changed = [] if best is None else [*changes_of(prepared, best)]
    hardware = dict(prepared.hardware)
    for place, change, _ in changed:
        if change.axis == "hardware":
            hardware[place.hardware] = _changed(prepared, place, change)
    beliefs = {TOLD: {}, **{place.belief: change.sections for place, change, _ in changed if change.axis == "beliefs"}}
    variants = {place.variant: _shape(place) for place in map(prepared.place, prepared.hardware)}
    variants |= {name: {**sections, **_shape(prepared.place(FORMULA))} for name, sections in prepared.levers.items()}
    for place, change, _ in changed:
        if change.axis == "variants":
            variants[place.variant] = {**change.sections, **_shape(place)}
    windows = [
        {"name": name, **_window(prepared, name, first)}
        for name, first in zip(prepared.windows, prepared.firsts, strict=True)
    ]
    runs = [
        *_first_runs(prepared),
        *_lever_runs(prepared, windows),
        *chain(*(_changed_runs(prepared, place, change, one) for place, change, one in changed)),
    ]
    table = {
        **_common(prepared, "What if"),
        "workloads": windows,
        "hardware": _values(hardware),
        "beliefs": _values(beliefs),
        "variants": _values(variants),
        "policies": [*_policies(prepared)],
        "runs": runs,
        "baseline": {"policy": PRESENT, "shakes": SHAKES, "runs": [*_first_runs(prepared)]},
        "measures": list(MEASURES),
    }
    return make_plan(read_experiment(table))


def _common(prepared: Prepared, title: str) -> dict[str, Any]:
    """Return what all studies of a question have in common."""
    scenario = {key: value for key, value in prepared.base.items() if key != "seed"}
    return {"title": title, "seeds": [prepared.base["seed"]], "scenario": scenario}


def _shape(place: Place) -> dict[str, Any]:
    """Return the settings of all policies there."""
    return {"set": ["shape=threads"]} if place.variant.endswith(BY_CORES.removeprefix(LOGGED)) else {}


def changes_of(prepared: Prepared, best: Mapping[str, Candidate]) -> Iterator[tuple[Place, Change, Candidate]]:
    """Yield each changed assumption, where its runs are in the study, and for which candidate it is changed."""
    asked = {one.policy: one for one in prepared.candidates}
    for contention, best_one in best.items():
        for change in CHANGES:
            candidate = asked.get(change.of) if change.of else best_one
            if candidate is None or (change.of and candidate.contention != contention):
                continue
            if contention not in change.contentions or (change.of_drawn and not prepared.draws(contention)):
                continue
            if (change.axis == "beliefs" and not candidate.shares) or (change.of_users and not prepared.has_users):
                continue
            if change.other_draw and prepared.other_programs is None:
                continue
            yield prepared.place(contention).with_change(change), change, candidate


def _changed(prepared: Prepared, place: Place, change: Change) -> dict[str, Any]:
    contention = place.hardware.partition(",")[0]
    sections = merged(prepared.hardware[contention], change.sections)
    if change.other_draw:
        sections = merged(sections, {"workload": {"annotations": prepared.other_programs}})
    return sections


def _values(sections: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{"name": name, **value} for name, value in sections.items()]


def _policies(prepared: Prepared) -> Iterator[dict[str, Any]]:
    question = prepared.question
    whole = question.policy or "easy"
    yield {"name": PRESENT, "policy": whole, "set": [*question.settings, *question.alone]}
    for candidate in prepared.candidates:
        if candidate.lever:
            continue
        own = () if candidate.shares else question.of_others
        yield {"name": candidate.policy, "policy": candidate.policy, "set": list(own)}


def _first_runs(prepared: Prepared) -> Iterator[dict[str, Any]]:
    for contention in prepared.hardware:
        own = [one.policy for one in prepared.candidates if one.contention == contention and not one.lever]
        place = prepared.place(contention)
        yield {
            "hardware": [contention],
            "beliefs": [place.belief],
            "variants": [place.variant],
            "policies": [PRESENT, *own],
        }


def _lever_runs(prepared: Prepared, windows: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the runs of the present policy in which the site changes something; a window without an outage has none to leave out."""
    place = prepared.place(FORMULA)
    for name, sections in prepared.levers.items():
        changed = [window["name"] for window in windows if merged(window, sections) != window]
        if changed:
            there = {"hardware": [FORMULA], "beliefs": [place.belief], "variants": [name], "policies": [PRESENT]}
            yield {**there, "workloads": changed}


def _changed_runs(prepared: Prepared, place: Place, change: Change, candidate: Candidate) -> Iterator[dict[str, Any]]:
    """Yield the runs of a changed assumption, but for those of the present policy that it does not change."""
    both = [PRESENT, candidate.policy] if prepared.present_place(place, change) == place else [candidate.policy]
    there = {"hardware": [place.hardware], "beliefs": [place.belief], "variants": [place.variant]}
    yield {**there, "policies": both, "workloads": list(prepared.windows[:: prepared.every])}


def whole_study(prepared: Prepared) -> Plan:
    """Return the plan of the one run that windows begin from, and the record is compared with: the whole log, the present policy.

    Jobs do not slow each other down: run times are the log's. Where the site names no nodes, processors are counted, in half the time.
    """
    make_folder(prepared.folder / _WINDOWS)
    place, site, policy = prepared.place(FORMULA), prepared.question.site, next(_policies(prepared))
    named = prepared.question.names_machine
    cluster = site["cluster"] if named else {"nodes": prepared.hardware[FORMULA]["cluster"]["nodes"]}
    settings = policy["set"] if named else [*prepared.question.settings]
    table = {
        **_common(prepared, "The whole log"),
        "workloads": [{"name": WHOLE, "results": {"warmup": 0, "cooldown": 0}, "script": site.get("script", [])}],
        "hardware": _values({FORMULA: {"cluster": cluster}}),
        "beliefs": _values({place.belief: {}}),
        "variants": _values({place.variant: _shape(place)}),
        "policies": [{**policy, "set": settings}],
        "measures": [OF_JOBS],
    }
    return make_plan(read_experiment(table))


def with_whole(prepared: Prepared, whole: WholeRun | None) -> Prepared:
    """Return the question with windows that begin as the whole run was there, and a note of how they begin."""
    if whole is None:
        note = "each window starts on an empty machine, so waits are too short: the run of the whole log failed"
    else:
        note = (
            "each window starts with the jobs that ran and waited then in a run of the whole log under the present policy; "
            "they do not count"
        )
    return replace(prepared, whole=whole, assumptions=(*prepared.assumptions, note))


def _window(prepared: Prepared, name: str, first: int) -> dict[str, Any]:
    """Write a window as a log of its own, which runs read quicker than the whole one; return its sections."""
    folder = prepared.folder / _WINDOWS
    make_folder(folder)
    jobs, before = warm_window(columns_of(prepared.log.jobs), first, prepared.window_jobs, prepared.whole)
    write_swf(folder / f"{name}.swf", prepared.log._replace(jobs=jobs, notes=()), force=True)
    margin = prepared.base["results"]["warmup"]
    begin_s = int(columns_of(jobs).submit_us.array[0]) / SECOND_US
    script = prepared.question.site.get("script", ())
    return {
        "script": [*script_of_window(script, begin_s, first, prepared.window_jobs, before)],
        "workload": {"swf": str(folder / f"{name}.swf")},
        "results": {"warmup": before + margin, "cooldown": margin},
    }


def more_runs(prepared: Prepared) -> int:
    """Return about how many runs the changed assumptions take."""
    best = {one.contention: one for one in prepared.candidates if one.shares}
    each = (
        2 if prepared.present_place(place, change) == place else 1 for place, change, _ in changes_of(prepared, best)
    )
    return len(prepared.windows[:: prepared.every]) * sum(each)


def with_scale(question: Question, windows: int | None, jobs: int | None) -> Question:
    """Return the question with other windows, where given."""
    given = {name: value for name, value in (("windows", windows), ("jobs", jobs)) if value is not None}
    return replace(question, scale=replace(question.scale, **given))
