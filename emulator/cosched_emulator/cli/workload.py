"""The commands of the group ``workload``: look at workloads, generate and import them."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Final, NamedTuple

import click

from cosched_emulator import offered
from cosched_emulator.cli.reporting import repairs_of, warn
from cosched_emulator.cli.scenario_options import overrides
from cosched_emulator.run.prepare import prepare
from cosched_emulator.scenario.machine import build_machine, cores_of
from cosched_emulator.scenario.reader import read_scenario
from cosched_emulator.scenario.rules import check_cluster
from cosched_emulator.workload.atomic_file import new_text_file
from cosched_emulator.workload.characteristics import with_characteristics_of
from cosched_emulator.workload.description import as_table
from cosched_emulator.workload.description import describe as statistics_of
from cosched_emulator.workload.job import Workload
from cosched_emulator.workload.jobs_in_columns import columns_of
from cosched_emulator.workload.lublin import LublinParameters, generate
from cosched_emulator.workload.multicore import CORES_PER_NODE, with_grown_sizes, with_self_slowdowns
from cosched_emulator.workload.side_files.annotations import (
    annotation_lines,
    profile_lines,
    read_annotations,
    with_annotations,
)
from cosched_emulator.workload.swf.swf_reader import SwfOptions, read_swf
from cosched_emulator.workload.swf.swf_writer import write_swf
from cosched_terminal.console import say


class MachineSize(NamedTuple):
    """The size of a machine. ``--processors`` counts nodes of the G-LOMARC-TS paper if jobs grow, and processors otherwise."""

    asked: int  # processors, for jobs that do not grow
    nodes: int
    cores: int  # for jobs that grow


DEFAULT_SIZE: Final = MachineSize(offered.NODES, offered.NODES, offered.NODES * CORES_PER_NODE)


def describe(
    file: str | None,
    lublin_jobs: int | None,
    processors: int | None,
    nodes: int | None,
    node: str | None,
    machine: str | None,
    aarr: float | None,
    seed: int | None,
    characteristics: str | None,
    annotations: str | None,
    self_slowdowns: str | None,
    grow: bool,
    first: int | None,
    jobs: int | None,
    skip_bad_rows: bool,
    as_logged: bool,
    as_json: bool,
) -> None:
    """Print statistics of a workload, its load, rhythm and users: an SWF file (plain or gzip), or the Lublin model."""
    if (file is None) == (lublin_jobs is None):
        raise click.UsageError("give either a FILE or --lublin N")
    draw_seed = 1 if seed is None else seed
    size = _machine_size(processors, nodes, node, machine)
    if file is None:
        _refuse(
            {"--first": first, "--jobs": jobs, "--skip-bad-rows": skip_bad_rows, "--as-logged": as_logged}, "--lublin"
        )
        size = size or DEFAULT_SIZE
        chosen = _generate(lublin_jobs or 0, size.nodes if grow else size.asked, aarr, draw_seed)
    else:
        used = seed if characteristics is None and self_slowdowns is None else None
        _refuse({"--aarr": aarr, "--seed": used, "--grow": grow}, "a FILE")
        options = SwfOptions(skip_bad_rows=skip_bad_rows)
        if as_logged:
            options = replace(options, minimum_estimate_s=0, cap_run_at_estimate=False)
        chosen = read_swf(file, options, first or 0, jobs)
    chosen = _with_drawn_usage(chosen, characteristics, annotations, self_slowdowns, draw_seed)
    if grow and size is not None:
        chosen = with_grown_sizes(chosen, size.cores)
    description = statistics_of(chosen, None if size is None else size.cores if grow else size.asked)
    say(json.dumps(description.as_dict(), indent=2) if as_json else as_table(description))


def _machine_size(
    processors: int | None, nodes: int | None, node: str | None, machine: str | None
) -> MachineSize | None:
    """Return the size of the machine that the options describe; None if they describe none."""
    given = {key: value for key, value in (("nodes", nodes), ("preset", node), ("file", machine)) if value is not None}
    if processors is not None:
        if given:
            raise click.UsageError("--processors does not go with --nodes, --node or --machine")
        return MachineSize(processors, processors, processors * CORES_PER_NODE)
    if not given:
        return None
    cluster = read_scenario(None, {"cluster": given}).cluster
    check_cluster(cluster)
    classes = build_machine(cluster)
    cores = cores_of(classes)
    return MachineSize(cores, sum(item.nodes for item in classes), cores)


def _refuse(flags: Mapping[str, object], other: str) -> None:
    """Raise UsageError for the given ones of these options, none of which goes with ``other``."""
    wrong = [flag for flag, value in flags.items() if value is not None and value is not False]
    if wrong:
        raise click.UsageError(f"{', '.join(wrong)} does not go with {other}")


def lublin(
    jobs: int,
    processors: int | None,
    nodes: int | None,
    node: str | None,
    machine: str | None,
    aarr: float | None,
    seed: int,
    gap_factor: float,
    run_factor: float,
    characteristics: str | None,
    self_slowdowns: str | None,
    grow: bool,
    usage_out: str | None,
    out: str,
    force: bool,
) -> None:
    """Generate a workload with the Lublin-Feitelson model and write it as SWF."""
    if (characteristics is None and self_slowdowns is None) != (usage_out is None):
        raise click.UsageError("--usage-out goes together with --characteristics, --self-slowdowns, or both")
    if grow and self_slowdowns is None:
        raise click.UsageError("--grow needs --self-slowdowns")
    size = _machine_size(processors, nodes, node, machine) or DEFAULT_SIZE
    generated = _generate(jobs, size.nodes if grow else size.asked, aarr, seed, gap_factor, run_factor)
    generated = _with_drawn_usage(generated, characteristics, None, self_slowdowns, seed)
    if grow:
        generated = with_grown_sizes(generated, size.cores)
    if usage_out is None:
        _write(generated, out, force=force)
        return
    with new_text_file(usage_out, force=force) as stream:  # write both files or none
        stream.writelines(annotation_lines(generated))
        _write(generated, out, force=force)


def _write(generated: Workload, out: str, *, force: bool) -> None:
    if out == "-":
        write_swf(sys.stdout, generated)
    else:
        write_swf(out, generated, force=force)
        say(f"{len(generated.jobs)} jobs written to {out}")


def _with_drawn_usage(
    workload: Workload, characteristics: str | None, annotations: str | None, self_slowdowns: str | None, seed: int
) -> Workload:
    if characteristics is not None:
        workload = with_characteristics_of(workload, characteristics, seed)
    if self_slowdowns is not None:
        workload = with_self_slowdowns(workload, seed)
    return workload if annotations is None else with_annotations(workload, read_annotations(annotations))


def _generate(
    jobs: int,
    processors: int,
    aarr: float | None,
    seed: int,
    gap_factor: float = 1.0,
    run_factor: float = 1.0,
) -> Workload:
    parameters = LublinParameters(gap_factor=gap_factor, run_factor=run_factor)
    if aarr is not None:
        parameters = LublinParameters(aarr=aarr, gap_factor=gap_factor, run_factor=run_factor)
    return generate(jobs, processors, parameters, seed)


def import_log(
    sacct: str | None,
    out: str | None,
    partitions: tuple[str, ...],
    time_zone: str | None,
    threads_per_core: int,
    default_estimate: float,
    as_submitted: bool,
    skip_bad_rows: bool,
    anonymise: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Make a log of Slurm's accounting; without options, print the command that dumps it."""
    from cosched_emulator.workload.sacct.sacct_log import ImportOptions, import_dump
    from cosched_emulator.workload.sacct.sacct_rows import COMMAND

    if sacct is None:
        given = {"--out": out, "--partition": bool(partitions), "--time-zone": time_zone, "--anonymise": anonymise}
        given |= {"--as-submitted": as_submitted, "--skip-bad-rows": skip_bad_rows}
        _refuse({**given, "--force": force, "--json": as_json}, "no --sacct FILE")
        say(COMMAND)
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
    )
    report = import_dump(sacct, out, options)
    if as_json:
        say(json.dumps(report.as_dict(), indent=2, ensure_ascii=False))
        return
    for line in report.lines():
        say(line)


# Over 50 lines: one argument for each option, and what each direction does not take.
def convert(
    files: tuple[str, ...],
    cores: int,
    platform: str | None,
    master_host: str,
    usage_out: str | None,
    profiles_out: str | None,
    out: str,
    force: bool,
    **options: Any,
) -> None:
    """Convert a log in SWF to a workload of Batsim's, or workloads of Batsim's (FILE.json) to a log."""
    from cosched_emulator.batsim.conversions import from_batsim, lost_of_log, to_batsim, told_exactly

    of_log = {f"--{name.replace('_', '-')}": value for name, value in options.items()}
    of_json = {"--platform": platform, "--usage-out": usage_out, "--profiles-out": profiles_out}
    if out.endswith((".json", ".json.gz")):
        if len(files) > 1 or files[0].endswith(".json"):
            raise click.UsageError("expected one log in SWF for a workload of Batsim's")
        _refuse(of_json, "a log")
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
        _refuse(of_log, "workloads of Batsim's")
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
    jobs = columns_of(converted.jobs)
    if usage_out is None and (jobs.knows(jobs.usage) or jobs.knows(jobs.self_slowdown)):
        warn("what bounds jobs is lost: --usage-out FILE keeps it")
    if profiles_out is None and jobs.knows(jobs.profile):
        warn("what processes ask of nodes is lost: --profiles-out FILE keeps it")
