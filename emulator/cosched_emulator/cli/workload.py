"""The command group ``workload``: look at workloads, generate and import them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, redirect_stdout
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from cosched_emulator import offered
from cosched_emulator.cli.completing import POLICIES, SETTINGS, SHAPES
from cosched_emulator.cli.scenario_options import A_FILE, AS_SUBMITTED, overrides, sets, some_of_scenario
from cosched_terminal.commands import argument, command, given_options, option, several
from cosched_terminal.console import progress_bar, say, warn
from cosched_terminal.help_text import Group

if TYPE_CHECKING:
    from cosched_emulator.whatif.question import Prepared
    from cosched_emulator.workload.job import Workload

_DESCRIBE_EXAMPLES = """Examples:

\b
  cosched-emulator workload describe CTC-SP2-1996-3.1-cln.swf.gz
  cosched-emulator workload describe trace.swf --first 10000 --jobs 10000 --json
  cosched-emulator workload describe --lublin 8000 --aarr 8.83 --characteristics M1
  cosched-emulator workload describe --lublin 10000 --aarr 10.33 --self-slowdowns table4 --grow
"""
_LUBLIN_EXAMPLES = """Examples:

\b
  cosched-emulator workload lublin --jobs 8000 --aarr 9.83 --seed 3 --out w2.swf.gz
  cosched-emulator workload lublin --jobs 1000 --processors 16 --gap-factor 0.025 --run-factor 0.025 --out small.swf
  cosched-emulator workload lublin --jobs 8000 --characteristics M1 --usage-out w1-usage.csv --out w1.swf.gz
  cosched-emulator workload lublin --jobs 8000 --self-slowdowns table4 --grow --usage-out w1-self.csv --out w1.swf.gz
  cosched-emulator workload lublin --jobs 8000 --nodes 64 --node 2x16x2 --out large.swf
  cosched-emulator workload lublin --jobs 20 --out -
"""
_CONVERT_EXAMPLES = """Examples:

\b
  cosched-emulator workload convert log.swf --out w.json
  cosched-emulator workload convert log.swf --cores 4 --annotations usage.csv --out w.json
  cosched-emulator workload convert w.json --usage-out usage.csv --out log.swf
"""
_IMPORT_EXAMPLES = """Examples:

\b
  cosched-emulator workload import
  cosched-emulator workload import --sacct jobs.txt --out site --time-zone Europe/Athens
  cosched-emulator simulate site/scenario.toml --policy easy
"""
_VALIDATE_EXAMPLES = """Examples:

\b
  cosched-emulator workload validate log.swf.gz
  cosched-emulator workload validate site/scenario.toml --json
  cosched-emulator workload validate log.swf.gz --policy conservative --nodes 430 --infer site
"""
_POSITIVE: Final = click.IntRange(min=1)
_JOBS: Final = click.IntRange(1, offered.MOST_JOBS)  # of the model
SELF_SLOWDOWNS: Final = option("--self-slowdowns", "Draw the self slowdowns of jobs.", offered.SELF_SLOWDOWNS)
SEED: Final = option("--seed", "Seed of all draws.", default=offered.SEED)
GROW: Final = option("--grow", "Let sizes grow: --processors are nodes of two CPUs with two cores each.")

OF_LOG: Final = several([
    sets("workload.annotations", "--annotations FILE", "Log: what bounds jobs, CSV or TOML.", A_FILE),
    sets("workload.profiles", "--profiles FILE", "Log: what processes ask of nodes, CSV.", A_FILE),
    sets("workload.characteristics", "--characteristics MIX", "Log: draw what bounds jobs."),
    sets("workload.mix", "--mix", "Log: draw bandwidth demands."),
    sets("workload.self_slowdowns", "--self-slowdowns", "Log: draw these.", offered.SELF_SLOWDOWNS),
    sets("workload.limits", "--limits", "Log: none leaves walltimes out.", offered.LIMITS),
    sets("seed", "--seed", f"Log: seed of all draws.  [default: {offered.SEED}]", int),
])  # fmt: skip

OF_RUN: Final = some_of_scenario("skip_bad_rows", "nodes", "node", "machine", "annotations", "seed")


class MachineOptions(NamedTuple):
    """The options that describe a machine, as an alternative to ``--processors``."""

    nodes: int | None = option("--nodes N", f"Machine: how many nodes.  [default: {offered.NODES}]", _POSITIVE)
    preset: str | None = option(
        "--node SHAPE", "Machine: its nodes, of `presets` or SOCKETSxCORESxTHREADS.", shell_complete=SHAPES
    )
    file: str | None = option("--machine FILE", "Machine: a TOML file of [[nodes]].", A_FILE)


@click.group(cls=Group)
def workload() -> None:
    """Describe, generate and import workloads."""


class MachineSize(NamedTuple):
    """The size of a machine. ``--processors`` counts nodes of the G-LOMARC-TS paper if jobs grow, and processors otherwise."""

    asked: int  # processors, for jobs that do not grow
    nodes: int
    cores: int  # for jobs that grow


# Over 50 lines: one parameter for each option.
@command(
    workload,
    epilog=_DESCRIBE_EXAMPLES,
    titles={
        "Of a file": "first jobs skip_bad_rows as_logged",
        "What is drawn": "characteristics annotations self_slowdowns grow seed",
    },
    prints="tables",
)
def describe(
    *,
    log: str | None = argument("[FILE]", click.Path()),
    lublin_jobs: int | None = option("--lublin N", "Describe N jobs of the Lublin model.", _JOBS),
    processors: int | None = option(
        "--processors",
        f"Size of the machine.  [default: the file's MaxProcs; {offered.NODES} with --lublin]",
        _POSITIVE,
    ),
    aarr: float = option("--aarr", "Lublin: parameter of the arrival rate.", default=offered.AARR),
    seed: int = SEED,
    characteristics: str | None = option(
        "--characteristics MIX", "Draw what bounds jobs: M1, M2, M3, or shares such as 40:30:30."
    ),
    annotations: str | None = option(
        "--annotations FILE", "Read what bounds jobs from a side file, CSV or TOML.", click.Path()
    ),
    described: MachineOptions,
    self_slowdowns: str | None = SELF_SLOWDOWNS,
    grow: bool = GROW,
    first: int | None = option("--first N", "File: skip N usable jobs.  [default: 0]", click.IntRange(min=0)),
    jobs: int | None = option("--jobs N", "File: read at most N jobs.  [default: all]", _POSITIVE),
    skip_bad_rows: bool = option("--skip-bad-rows", "File: leave malformed rows out instead of stopping."),
    as_logged: bool = option(
        "--as-logged", "File: keep run times above the estimate, and short estimates, as they are."
    ),
    as_json: bool = option("--json", "Print JSON."),
) -> None:
    """Print statistics of a workload, its load, rhythm and users: an SWF file (plain or gzip), or the Lublin model."""
    from cosched_emulator.workload.description import as_table
    from cosched_emulator.workload.description import describe as statistics_of
    from cosched_emulator.workload.lublin import LublinParameters, generate
    from cosched_emulator.workload.multicore import with_grown_sizes
    from cosched_emulator.workload.swf.swf_reader import SwfOptions, read_swf

    if (log is None) == (lublin_jobs is None):
        raise click.UsageError("give either a FILE or --lublin N")
    size = _machine_size(processors, described)
    if log is None:
        _refuse(("--first", "--jobs", "--skip-bad-rows", "--as-logged"), "--lublin")
        size = size or _size_of(offered.NODES)
        chosen = generate(lublin_jobs or 0, size.nodes if grow else size.asked, LublinParameters(aarr=aarr), seed)
    else:
        draws = characteristics is not None or self_slowdowns is not None
        _refuse(("--aarr", "--grow") if draws else ("--aarr", "--seed", "--grow"), "a FILE")
        options = SwfOptions(skip_bad_rows=skip_bad_rows)
        if as_logged:
            options = replace(options, minimum_estimate_s=0, cap_run_at_estimate=False)
        chosen = read_swf(log, options, first or 0, jobs)
    chosen = _with_drawn_usage(chosen, characteristics, annotations, self_slowdowns, seed)
    if grow and size is not None:
        chosen = with_grown_sizes(chosen, size.cores)
    description = statistics_of(chosen, None if size is None else size.cores if grow else size.asked)
    say(json.dumps(description.as_dict(), indent=2) if as_json else as_table(description))


def _size_of(processors: int) -> MachineSize:
    """Return the size that ``--processors`` stands for."""
    from cosched_emulator.workload.multicore import CORES_PER_NODE

    return MachineSize(processors, processors, processors * CORES_PER_NODE)


def _machine_size(processors: int | None, described: MachineOptions) -> MachineSize | None:
    """Return the size of the machine that the options describe; None if they describe none."""
    from cosched_emulator.scenario.machine import build_machine, cores_of
    from cosched_emulator.scenario.reader import read_scenario
    from cosched_emulator.scenario.rules import check_cluster

    given = {key: value for key, value in described._asdict().items() if value is not None}
    if processors is not None:
        if given:
            raise click.UsageError("--processors does not go with --nodes, --node or --machine")
        return _size_of(processors)
    if not given:
        return None
    cluster = read_scenario(None, {"cluster": given}).cluster
    check_cluster(cluster)
    classes = build_machine(cluster)
    cores = cores_of(classes)
    return MachineSize(cores, sum(item.nodes for item in classes), cores)


def _refuse(options: Sequence[str], other: str) -> None:
    """Raise UsageError if some of these options are given, none of which goes with ``other``."""
    given = given_options()
    wrong = [each for each in options if each in given]
    if wrong:
        raise click.UsageError(f"{', '.join(wrong)} does not go with {other}")


@command(workload, epilog=_LUBLIN_EXAMPLES)
def lublin(
    *,
    jobs: int = option("--jobs", "Number of jobs.", _JOBS),
    processors: int | None = option("--processors", f"Size of the machine.  [default: {offered.NODES}]", _POSITIVE),
    described: MachineOptions,
    aarr: float = option("--aarr", "Parameter of the arrival rate; smaller is busier.", default=offered.AARR),
    seed: int = SEED,
    gap_factor: float = option("--gap-factor", "Multiply the gaps between arrivals.", default=1.0),
    run_factor: float = option("--run-factor", "Multiply the run times.", default=1.0),
    characteristics: str | None = option(
        "--characteristics MIX", "Draw what bounds jobs, too: M1, M2, M3, or shares such as 40:30:30."
    ),
    self_slowdowns: str | None = SELF_SLOWDOWNS,
    grow: bool = GROW,
    usage_out: str | None = option(
        "--usage-out FILE", "Write the drawn values to FILE, as annotations in CSV.", click.Path()
    ),
    out: str = option("--out", "File to write (.gz compresses); - for standard output.", click.Path()),
    force: bool = option("--force", "Overwrite the file if it exists."),
) -> None:
    """Generate a workload with the Lublin-Feitelson model and write it as SWF.

    Estimates are the run times, and a minute at least, as logs are read.
    """
    from cosched_emulator.workload.atomic_file import new_text_file
    from cosched_emulator.workload.lublin import LublinParameters, generate
    from cosched_emulator.workload.multicore import with_grown_sizes
    from cosched_emulator.workload.side_files.annotations import annotation_lines

    if (characteristics is None and self_slowdowns is None) != (usage_out is None):
        raise click.UsageError("--usage-out goes together with --characteristics, --self-slowdowns, or both")
    if grow and self_slowdowns is None:
        raise click.UsageError("--grow needs --self-slowdowns")
    size = _machine_size(processors, described) or _size_of(offered.NODES)
    parameters = LublinParameters(aarr=aarr, gap_factor=gap_factor, run_factor=run_factor)
    generated = _as_asked(generate(jobs, size.nodes if grow else size.asked, parameters, seed))
    generated = _with_drawn_usage(generated, characteristics, None, self_slowdowns, seed)
    if grow:
        generated = with_grown_sizes(generated, size.cores)
    if usage_out is None:
        _write(generated, out, force=force)
        return
    with new_text_file(usage_out, force=force) as stream:  # write both files or none
        stream.writelines(annotation_lines(generated))
        _write(generated, out, force=force)


def _as_asked(generated: Workload) -> Workload:
    """Return a workload whose estimates are not too short for a log: what reads it would raise them, and call that a repair."""
    import numpy as np

    from cosched_emulator.workload.jobs_in_columns import Numbers, columns_of
    from cosched_emulator.workload.swf.swf_reader import SwfOptions
    from cosched_hwmodel.units import SECOND_US

    jobs = columns_of(generated.jobs)
    asked_us = np.maximum(jobs.estimate_us.array, round(SwfOptions().minimum_estimate_s * SECOND_US))
    return generated._replace(jobs=jobs.having(estimate_us=Numbers(asked_us)))


def _write(generated: Workload, out: str, *, force: bool) -> None:
    from cosched_emulator.workload.swf.swf_writer import write_swf

    if out == "-":
        write_swf(sys.stdout, generated)
    else:
        write_swf(out, generated, force=force)
        say(f"{len(generated.jobs)} jobs written to {out}")


def _with_drawn_usage(
    workload: Workload, characteristics: str | None, annotations: str | None, self_slowdowns: str | None, seed: int
) -> Workload:
    from cosched_emulator.workload.characteristics import with_characteristics_of
    from cosched_emulator.workload.multicore import with_self_slowdowns
    from cosched_emulator.workload.side_files.annotations import read_annotations, with_annotations

    if characteristics is not None:
        workload = with_characteristics_of(workload, characteristics, seed)
    if self_slowdowns is not None:
        workload = with_self_slowdowns(workload, seed)
    return workload if annotations is None else with_annotations(workload, read_annotations(annotations))


@command(workload, name="import", epilog=_IMPORT_EXAMPLES, prints="text")
def import_log(
    sacct: str | None = option("--sacct FILE", "What sacct -P or sacct --json printed.", click.Path()),
    out: str | None = option("--out DIR", "Folder to write: trace.swf, jobs.csv, scenario.toml.", click.Path()),
    facts: tuple[str, ...] = option("--facts FILE", "What scontrol show or sacctmgr show printed; may be repeated."),
    partitions: tuple[str, ...] = option("--partition NAME", "Only jobs of this partition; may be repeated."),
    time_zone: str | None = option(
        "--time-zone ZONE", "Of times that name none, such as Europe/Athens.  [default: UTC]"
    ),
    threads_per_core: int = option("--threads-per-core N", "CPUs of Slurm on a core.", _POSITIVE, 1),
    default_estimate: float = option(
        "--default-estimate S", "Estimate of jobs without a limit, in seconds.", click.FloatRange(min=1), 86_400
    ),
    memory_mb: int | None = option(
        "--memory-mb N", "Memory of a node, in MiB.  [default: the most that jobs held]", _POSITIVE
    ),
    as_submitted: bool = AS_SUBMITTED,
    skip_bad_rows: bool = option("--skip-bad-rows", "Leave malformed rows out instead of stopping."),
    anonymise: bool = option("--anonymise", "Leave out names, numbers of jobs and the day."),
    force: bool = option("--force", "Overwrite files that exist."),
    as_json: bool = option("--json", "Print JSON."),
) -> None:
    """Make a log of Slurm's accounting; without options, print the commands that dump it, and the site's facts."""
    from cosched_emulator.workload.sacct.sacct_log import ImportOptions, import_dump
    from cosched_emulator.workload.sacct.site_facts import COMMANDS
    from cosched_plugin.common.sacct_rows import COMMAND

    if sacct is None:
        _refuse(given_options(), "no --sacct FILE")
        say("\n".join((COMMAND, *COMMANDS)))
        return
    if out is None:
        raise click.UsageError("--sacct FILE needs --out DIR")
    options = ImportOptions(
        time_zone,
        partitions,
        threads_per_core,
        default_estimate,
        as_submitted=as_submitted,
        skip_bad_rows=skip_bad_rows,
        anonymous=anonymise,
        force=force,
        memory_mb=memory_mb,
        facts=facts,
    )
    report = import_dump(sacct, out, options)
    if as_json:
        say(json.dumps(report.as_dict(), indent=2, ensure_ascii=False))
        return
    for line in report.lines():
        say(line)


@command(workload, epilog=_VALIDATE_EXAMPLES, prints="result")
def validate(
    site: str = argument("LOG.swf|SITE.toml", click.Path()),
    options: dict[str, Any] = OF_RUN,
    policy: str | None = option(
        "--policy", "The present policy.  [default: the site's, else easy]", shell_complete=POLICIES
    ),
    assignments: tuple[str, ...] = option(
        "--set KEY=VALUE", "A setting of it; may be repeated.", shell_complete=SETTINGS
    ),
    infer: Path | None = option(
        "--infer DIR", "Fit limits, pools and outages to the log; write a site with those that come nearer."
    ),
    as_json: bool = option("--json", "Print JSON: all classes of jobs, too."),
) -> None:
    """Compare what a log records with a run of it under the present policy: how far, and why.

    This is the first step of whatif, and says whether its baseline is credible. --infer fits a limit by user, pools and outages to the
    first half of the log, and uses what brings the second half nearer to the record: whatif takes DIR/scenario.toml.
    """
    from cosched_emulator.whatif.question import Question, prepare_question
    from cosched_emulator.whatif.site_sections import site_of
    from cosched_emulator.whatif.validation import as_dict, records_waits, run_whole, text, validation_of

    given = overrides(options)
    if not site.endswith(".toml"):
        given.setdefault("workload", {})["swf"] = site
    with redirect_stdout(sys.stderr), TemporaryDirectory() as folder:  # modules that the site names may print
        sections, own = site_of(site if site.endswith(".toml") else None, given)
        prepared = prepare_question(
            Question(sections, policy or own, assignments, asked=policy is not None), Path(folder)
        )
        if records_waits(prepared):
            with progress_bar(len(prepared.log.jobs)) as bar:
                prepared = run_whole(prepared, bar)
        found = validation_of(prepared)
        if infer is not None and found.distance is not None:
            found = found._replace(tried=tuple(_inferred(prepared, infer)))
    say(json.dumps(as_dict(found), indent=2, ensure_ascii=False) if as_json else text(found), nl=as_json)


def _inferred(prepared: Prepared, folder: Path) -> Iterator[str]:
    """Yield what became of each constraint that a log suggests, and where the site with those that are used was written."""
    from cosched_emulator.whatif.inferred import infer_from, write_site
    from cosched_emulator.whatif.validation import verdict

    with progress_bar(len(prepared.log.jobs)) as bar:
        nearer, judged = infer_from(prepared, folder, bar)
    yield from (each.words for each in judged)
    if not judged:
        yield "inferred: nothing, as no limit, pool or dead time is evident"
    if nearer.distance is not None and any(each.used for each in judged):
        yield f"with that, ratio {nearer.distance.ratio:.2f}, {verdict(nearer.distance)}: {write_site(nearer.prepared, folder)}"


# Over 50 lines: one argument for each option, and what each direction does not take.
@command(workload, epilog=_CONVERT_EXAMPLES, prints="text")
def convert(
    files: tuple[str, ...] = argument(kind=click.Path()),
    cores: int = option("--cores C", "Processes that fill a host.", _POSITIVE, 1),
    options: dict[str, Any] = OF_LOG,
    platform: str | None = option("-p --platform FILE.xml", "JSON: the speed of hosts; else 1 Gflop/s.", A_FILE),
    master_host: str = option(
        "-m --master-host NAME", "JSON: the platform's host without jobs.", default="master_host"
    ),
    usage_out: str | None = option(
        "--usage-out FILE", "JSON: write what bounds jobs there, annotations in CSV.", A_FILE
    ),
    profiles_out: str | None = option(
        "--profiles-out FILE", "JSON: write what processes ask of nodes there, CSV.", A_FILE
    ),
    out: str = option("--out", "File to write: .json of Batsim's, or SWF (.gz compresses).", click.Path()),
    force: bool = option("--force", "Overwrite files that exist."),
) -> None:
    """Convert a log in SWF to a workload of Batsim's, or workloads of Batsim's (FILE.json) to a log."""
    from cosched_emulator.batsim.run import from_batsim, lost_of_log, to_batsim, told_exactly
    from cosched_emulator.cli.reporting import repairs_of
    from cosched_emulator.run.prepare import prepare
    from cosched_emulator.scenario.reader import read_scenario
    from cosched_emulator.workload.atomic_file import new_text_file
    from cosched_emulator.workload.side_files.annotations import annotation_lines, profile_lines
    from cosched_emulator.workload.swf.swf_writer import write_swf

    if out.endswith((".json", ".json.gz")):
        if len(files) > 1 or files[0].endswith(".json"):
            raise click.UsageError("expected one log in SWF for a workload of Batsim's")
        _refuse(("--platform", "--usage-out", "--profiles-out"), "a log")
        table = told_exactly({**overrides(options), "cluster": {"nodes": 1, "cores": cores}})
        as_logged = {"swf": files[0], "minimum_estimate_s": 0, "cap_runs": False}
        table["workload"] = {**table.get("workload", {}), **as_logged}
        converted = prepare(read_scenario(None, table)).workload
        content = json.dumps(to_batsim(converted, cores))
        with new_text_file(out, force=force) as stream:
            stream.write(f"{content}\n")
        if len(repairs := repairs_of(converted.notes)) > 1:  # the first says how many rows there are
            say("; ".join(repairs), err=True)
        for lost in lost_of_log(converted):
            warn(lost)
    else:
        _refuse([f"--{name.replace('_', '-')}" for name in options], "workloads of Batsim's")
        converted = from_batsim(files, cores, platform, master_host)
        with ExitStack() as open_files:  # all files or none
            for side_file, lines in ((usage_out, annotation_lines), (profiles_out, profile_lines)):
                if side_file is not None:
                    open_files.enter_context(new_text_file(side_file, force=force)).writelines(lines(converted))
            write_swf(out, converted, force=force)
        _warn_of_lost(converted, usage_out, profiles_out)
    for warning in converted.warnings:
        warn(warning)
    say(f"{len(converted.jobs)} jobs written to {out}")


def _warn_of_lost(converted: Workload, usage_out: str | None, profiles_out: str | None) -> None:
    """Warn of what jobs ask of nodes, and no side file was written for."""
    from cosched_emulator.workload.jobs_in_columns import columns_of
    from cosched_emulator.workload.side_files.annotations import ANNOTATED

    jobs = columns_of(converted.jobs)
    if usage_out is None and any(map(jobs.says, ANNOTATED)):
        warn("what bounds jobs is lost: --usage-out FILE keeps it")
    if profiles_out is None and jobs.knows(jobs.profile):
        warn("what processes ask of nodes is lost: --profiles-out FILE keeps it")
