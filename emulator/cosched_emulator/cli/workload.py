"""The command group ``workload``: look at workloads, generate and import them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import click

from cosched_emulator import offered
from cosched_emulator.cli.completing import POLICIES, SETTINGS
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
  cosched-emulator workload describe --lublin 10000 --aarr 10.33 --self-slowdowns table4 --grow --node 2x2x1
"""
_LUBLIN_EXAMPLES = """Examples:

\b
  cosched-emulator workload lublin --jobs 8000 --aarr 9.83 --seed 3 --out w2.swf.gz
  cosched-emulator workload lublin --jobs 1000 --processors 16 --gap-factor 0.025 --run-factor 0.025 --out small.swf
  cosched-emulator workload lublin --jobs 8000 --characteristics M1 --usage-out w1-usage.csv --out w1.swf.gz
  cosched-emulator workload lublin --jobs 8000 --self-slowdowns table4 --grow --node 2x2x1 --usage-out w1-self.csv --out w1.swf.gz
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

OF_LOG: Final = several([
    sets("workload.annotations", "--annotations FILE", "Log: what bounds jobs, CSV or TOML.", A_FILE),
    sets("workload.profiles", "--profiles FILE", "Log: what processes ask of nodes, CSV.", A_FILE),
    sets("workload.characteristics", "--characteristics MIX", "Log: draw what bounds jobs."),
    sets("workload.mix", "--mix", "Log: draw bandwidth demands."),
    sets("workload.self_slowdowns", "--self-slowdowns", "Log: draw the self slowdowns of jobs.", offered.SELF_SLOWDOWNS),
    sets("workload.limits", "--limits", "Log: none leaves walltimes out.", offered.LIMITS),
    sets("seed", "--seed", f"Log: seed of all draws.  [default: {offered.SEED}]", int),
])  # fmt: skip

_OF_JOBS: Final = (
    "aarr",
    "characteristics",
    "self_slowdowns",
    "grow",
    "nodes",
    "processors",
    "node",
    "machine",
    "seed",
)
OF_DESCRIBED: Final = some_of_scenario("lublin", "first", "jobs", "skip_bad_rows", "annotations", *_OF_JOBS)
OF_MODEL: Final = some_of_scenario(*_OF_JOBS)
OF_RUN: Final = some_of_scenario("skip_bad_rows", "nodes", "node", "machine", "annotations", "seed")


@click.group(cls=Group)
def workload() -> None:
    """Describe, generate and import workloads."""


@command(workload, epilog=_DESCRIBE_EXAMPLES, prints="tables")
def describe(
    log: str | None = argument("[FILE]", click.Path()),
    options: dict[str, Any] = OF_DESCRIBED,
    as_logged: bool = option(
        "--as-logged", "File: keep run times above the estimate, and short estimates, as they are."
    ),
    as_json: bool = option("--json", "Print JSON."),
) -> None:
    """Print statistics of a workload, its load, rhythm and users: an SWF file (plain or gzip), or the Lublin model."""
    from cosched_emulator.workload.description import as_table
    from cosched_emulator.workload.description import describe as statistics_of

    if (log is None) == (options["lublin"] is None):
        raise click.UsageError("give either a FILE or --lublin N")
    table = overrides(options)
    if log is not None:
        kept = {"minimum_estimate_s": 0, "cap_runs": False} if as_logged else {}
        table["workload"] = {**table.get("workload", {}), "swf": log, **kept}
    chosen, cores = _jobs_of(table)
    description = statistics_of(chosen, cores)
    say(json.dumps(description.as_dict(), indent=2) if as_json else as_table(description))


def _jobs_of(table: dict[str, Any]) -> tuple[Workload, int | None]:
    """Return the jobs of a scenario, and how many cores its machine has: None for a log without a machine."""
    from cosched_emulator.bounds import check_bounds
    from cosched_emulator.scenario.machine import build_machine, cores_of
    from cosched_emulator.scenario.reader import read_scenario
    from cosched_emulator.scenario.rules import check_rules
    from cosched_emulator.scenario.scenario_jobs import build_workload

    scenario = read_scenario(None, table)
    check_bounds(scenario)
    check_rules(scenario)
    if "swf" in table["workload"] and "cluster" not in table:
        return build_workload(scenario, 0), None
    nodes = build_machine(scenario.cluster)
    cores = cores_of(nodes)
    return build_workload(scenario, cores, sum(item.nodes for item in nodes)), cores


def _refuse(options: Sequence[str], other: str) -> None:
    """Raise UsageError if some of these options are given, none of which goes with ``other``."""
    given = given_options()
    wrong = [each for each in options if each in given]
    if wrong:
        raise click.UsageError(f"{', '.join(wrong)} does not go with {other}")


@command(workload, epilog=_LUBLIN_EXAMPLES)
def lublin(
    jobs: int = option("--jobs", "Number of jobs.", click.IntRange(1, offered.MOST_JOBS)),
    options: dict[str, Any] = OF_MODEL,
    gap_factor: float = option("--gap-factor", "Multiply the gaps between arrivals.", default=1.0),
    run_factor: float = option("--run-factor", "Multiply the run times.", default=1.0),
    usage_out: str | None = option(
        "--usage-out FILE", "Write the drawn values to FILE, as annotations in CSV.", click.Path()
    ),
    out: str = option("--out", "File to write (.gz compresses); - for standard output.", click.Path()),
    force: bool = option("--force", "Overwrite the file if it exists."),
) -> None:
    """Generate a workload with the Lublin-Feitelson model and write it as SWF.

    Estimates are the run times, but at least a minute, as in logs that are read.
    """
    from cosched_emulator.workload.atomic_file import new_text_file
    from cosched_emulator.workload.side_files.annotations import annotation_lines

    if (options["characteristics"] is None and options["self_slowdowns"] is None) != (usage_out is None):
        raise click.UsageError("--usage-out goes together with --characteristics, --self-slowdowns, or both")
    if options["grow"] and options["self_slowdowns"] is None:
        raise click.UsageError("--grow needs --self-slowdowns")
    table = overrides(options)
    table["workload"] = {
        **table.get("workload", {}),
        "lublin": jobs,
        "gap_factor": gap_factor,
        "run_factor": run_factor,
    }
    generated = _as_asked(_jobs_of(table)[0])
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


@command(workload, name="import", epilog=_IMPORT_EXAMPLES, prints="text")
def import_log(
    sacct: str | None = option("--sacct FILE", "What sacct -P or sacct --json printed.", click.Path()),
    out: str | None = option("--out DIR", "Folder to write: trace.swf, jobs.csv, scenario.toml.", click.Path()),
    facts: tuple[str, ...] = option("--facts FILE", "What scontrol show or sacctmgr show printed; may be repeated."),
    partitions: tuple[str, ...] = option("--partition NAME", "Only jobs of this partition; may be repeated."),
    time_zone: str | None = option(
        "--time-zone ZONE", "Time zone of times that name none, such as Europe/Athens.  [default: UTC]"
    ),
    threads_per_core: int = option("--threads-per-core N", "Slurm's CPUs on a core.", _POSITIVE, 1),
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
    """Make a log from Slurm's accounting; without options, print the commands that dump it and the site's facts."""
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
        "--set KEY=VALUE", "Change one setting of that policy; may be repeated.", shell_complete=SETTINGS
    ),
    infer: Path | None = option(
        "--infer DIR",
        "Fit limits, pools and outages to the log; write a site with those that bring the run nearer to it.",
    ),
    as_json: bool = option("--json", "Print JSON: all classes of jobs, too."),
) -> None:
    """Compare what a log records with a run of it under the present policy: how far apart they are, and why.

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
    out: str = option("--out", "File to write: Batsim's .json, or SWF (.gz compresses).", click.Path()),
    force: bool = option("--force", "Overwrite files that exist."),
) -> None:
    """Convert an SWF log to a Batsim workload, or Batsim workloads (FILE.json) to a log."""
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
