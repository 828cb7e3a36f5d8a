"""The command group ``workload``: look at workloads, and generate them.

Nothing but click is imported before a command runs, so that help and typing errors cost no time.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Literal

import click

if TYPE_CHECKING:
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
  cosched-emulator workload lublin --jobs 20 --out -
"""
_POSITIVE = click.IntRange(min=1)
_SELF_SLOWDOWNS = click.option(
    "--self-slowdowns", type=click.Choice(["table4"]), help="Draw by how much jobs slow themselves down."
)
_GROW = click.option(
    "--grow", is_flag=True, help="Let sizes grow: --processors are nodes of two CPUs with two cores each."
)


@click.group()
def workload() -> None:
    """Look at workloads, and generate them."""


@workload.command(epilog=_DESCRIBE_EXAMPLES)
@click.argument("file", required=False, type=click.Path())
@click.option("--lublin", "lublin_jobs", type=_POSITIVE, metavar="N", help="Describe N jobs of the Lublin model.")
@click.option(
    "--processors", type=_POSITIVE, help="Size of the machine.  [default: the file's MaxProcs; 128 with --lublin]"
)
@click.option("--aarr", type=float, help="Lublin: parameter of the arrival rate.  [default: 10.2303]")
@click.option("--seed", type=int, help="Seed of what is drawn.  [default: 1]")
@click.option("--characteristics", metavar="MIX", help="Draw what bounds jobs: M1, M2, M3, or shares such as 40:30:30.")
@click.option(
    "--annotations", type=click.Path(), metavar="FILE", help="Read what bounds jobs from a side file, CSV or TOML."
)
@_SELF_SLOWDOWNS
@_GROW
@click.option("--first", type=click.IntRange(min=0), help="File: skip so many usable jobs.  [default: 0]")
@click.option("--jobs", type=_POSITIVE, help="File: read at most so many jobs.  [default: all]")
@click.option("--skip-bad-rows", is_flag=True, help="File: leave malformed rows out instead of stopping.")
@click.option("--as-logged", is_flag=True, help="File: leave run times above the estimate, and short estimates, alone.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def describe(
    file: str | None,
    lublin_jobs: int | None,
    processors: int | None,
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
    """Print statistics of a workload: an SWF file (plain or gzip), or the Lublin model."""
    if (file is None) == (lublin_jobs is None):
        raise click.UsageError("give either a FILE or --lublin N")
    file_flags = {"--first": first, "--jobs": jobs, "--skip-bad-rows": skip_bad_rows, "--as-logged": as_logged}
    model_flags = {
        "--aarr": aarr,
        "--seed": seed if characteristics is None and self_slowdowns is None else None,
        "--grow": grow,
    }
    wrong = [
        flag
        for flag, value in (file_flags if file is None else model_flags).items()
        if value is not None and value is not False
    ]
    if wrong:
        raise click.UsageError(f"{', '.join(wrong)} does not go with {'--lublin' if file is None else 'a FILE'}")
    from cosched_emulator.workload.describe import as_table  # noqa: PLC0415
    from cosched_emulator.workload.describe import describe as statistics_of  # noqa: PLC0415

    if lublin_jobs is not None:
        processors = 128 if processors is None else processors
        chosen = _generated(lublin_jobs, processors, aarr, 1 if seed is None else seed)
    else:
        from cosched_emulator.workload.swf.reader import SwfOptions, read_swf  # noqa: PLC0415

        options = (
            SwfOptions(skip_bad_rows=skip_bad_rows, minimum_estimate_s=0, cap_run_at_estimate=False)
            if as_logged
            else SwfOptions(skip_bad_rows=skip_bad_rows)
        )
        chosen = read_swf(str(file), options, first or 0, jobs)
    chosen = _characterised(chosen, characteristics, annotations, self_slowdowns, 1 if seed is None else seed)
    if grow:
        chosen = _grown(chosen)
        processors = chosen.processors
    description = statistics_of(chosen, processors)
    click.echo(json.dumps(description.as_dict(), indent=2) if as_json else as_table(description))


@workload.command(epilog=_LUBLIN_EXAMPLES)
@click.option("--jobs", type=_POSITIVE, required=True, help="Number of jobs.")
@click.option("--processors", type=_POSITIVE, default=128, show_default=True, help="Size of the machine.")
@click.option("--aarr", type=float, help="Parameter of the arrival rate; smaller is busier.  [default: 10.2303]")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of all draws.")
@click.option("--gap-factor", type=float, default=1.0, show_default=True, help="Multiply the gaps between arrivals.")
@click.option("--run-factor", type=float, default=1.0, show_default=True, help="Multiply the run times.")
@click.option(
    "--characteristics", metavar="MIX", help="Draw what bounds jobs, too: M1, M2, M3, or shares such as 40:30:30."
)
@_SELF_SLOWDOWNS
@_GROW
@click.option(
    "--usage-out", type=click.Path(), metavar="FILE", help="Where to write what is drawn, as annotations in CSV."
)
@click.option("--out", required=True, type=click.Path(), help="File to write (.gz compresses); - for standard output.")
@click.option("--force", is_flag=True, help="Overwrite the file if it exists.")
def lublin(
    jobs: int,
    processors: int,
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
    from cosched_emulator.workload.annotations import annotation_lines  # noqa: PLC0415
    from cosched_emulator.workload.atomic_file import new_text_file  # noqa: PLC0415

    generated = _generated(jobs, processors, aarr, seed, gap_factor, run_factor)
    generated = _characterised(generated, characteristics, None, self_slowdowns, seed)
    if grow:
        generated = _grown(generated)
    if usage_out is None:
        _write(generated, out, force=force)
        return
    with new_text_file(usage_out, force=force) as stream:  # both files or none
        stream.writelines(annotation_lines(generated))
        _write(generated, out, force=force)


def _write(generated: Workload, out: str, *, force: bool) -> None:
    from cosched_emulator.workload.swf.writer import write_swf  # noqa: PLC0415

    if out == "-":
        write_swf(sys.stdout, generated)
    else:
        write_swf(out, generated, force=force)
        click.echo(f"{len(generated.jobs)} jobs written to {out}")


def _characterised(
    workload: Workload, characteristics: str | None, annotations: str | None, self_slowdowns: str | None, seed: int
) -> Workload:
    from cosched_emulator.workload.annotations import read_annotations, with_annotations  # noqa: PLC0415
    from cosched_emulator.workload.characteristics import parse_characteristics, with_characteristics  # noqa: PLC0415
    from cosched_emulator.workload.multicore import with_self_slowdowns  # noqa: PLC0415

    if characteristics is not None:
        workload = with_characteristics(workload, parse_characteristics(characteristics), seed)
    if self_slowdowns is not None:
        workload = with_self_slowdowns(workload, seed)
    return workload if annotations is None else with_annotations(workload, read_annotations(annotations))


def _grown(workload: Workload) -> Workload:
    from cosched_emulator.workload.multicore import CORES_PER_NODE, grown  # noqa: PLC0415

    return grown(workload, (workload.processors or 0) * CORES_PER_NODE)


def _generated(
    jobs: int,
    processors: int,
    aarr: float | None,
    seed: int,
    gap_factor: float = 1.0,
    run_factor: float = 1.0,
    limits: Literal["none", "estimate"] = "none",
) -> Workload:
    from cosched_emulator.workload.lublin import LublinParameters, generate  # noqa: PLC0415

    parameters = LublinParameters(gap_factor=gap_factor, run_factor=run_factor)
    if aarr is not None:
        parameters = LublinParameters(aarr=aarr, gap_factor=gap_factor, run_factor=run_factor)
    return generate(jobs, processors, parameters, seed, limits)
