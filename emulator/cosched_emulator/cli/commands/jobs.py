"""The commands for jobs of a running manager, modelled on Slurm's sbatch, scancel, squeue, scontrol and sacct."""

from __future__ import annotations

import click

from cosched_emulator.cli.commands.options.job_options import JobCommand, ignored_options, job_options
from cosched_emulator.cli.commands.options.manager_options import JOBS, SECONDS, common_options, whose
from cosched_terminal.lazy import implementation


@click.command(cls=JobCommand, params=[*job_options(), *ignored_options()])
@click.argument("script", required=False, type=click.Path())
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("--parsable", is_flag=True, help="Print only the number of the job.")
@click.option(
    "--token",
    metavar="TEXT",
    help="Your name for this submission: one that is repeated, because no answer came, submits nothing again.",
)
@click.option("--test-only", is_flag=True, help="Submit nothing: say when the job would start.")
@click.option("-W", "--wait", "and_wait", is_flag=True, help="Wait for its end; exit code 1 unless it completes.")
@common_options()
@click.pass_context
@implementation("cosched_emulator.cli.jobs")
def submit() -> None:
    """Submit a job, or an array of jobs.

    Lines "#SBATCH" and "#COSCHED" in the head of SCRIPT hold the same options; the command line wins. SCRIPT is not executed: nodes
    are emulated, and --run says how long the job takes. TIME is one of min, min:s, h:m:s, d-h, d-h:m, d-h:m:s, in emulated time.
    WHEN is one of HH:MM[:SS], YYYY-MM-DD[THH:MM[:SS]], now+COUNT[UNIT], today, tomorrow, midnight, noon, teatime.
    Other options of sbatch have no effect; a note names them.

    \b
    Examples:
      cosched-emulator submit -n 16 -t 2:00:00 --run 5400 --demand 2000
      cosched-emulator submit -N 2 --ntasks-per-node 8 --array 0-9%2 --dependency afterok:12 job.sh
    """


@click.command()
@JOBS
@common_options()
@implementation("cosched_emulator.cli.jobs")
def cancel() -> None:
    """End pending or running jobs: 12, a task 12_3, several tasks 12_[1-3,7]; the number of an array names all tasks.

    \b
    Example:
      cosched-emulator cancel 12 15_[3-7]
    """


@click.command()
@JOBS
@common_options()
@implementation("cosched_emulator.cli.jobs")
def hold() -> None:
    """Hold pending jobs: they do not start until released.

    \b
    Example:
      cosched-emulator hold 12
    """


@click.command()
@JOBS
@common_options()
@implementation("cosched_emulator.cli.jobs")
def release() -> None:
    """Release held jobs.

    \b
    Example:
      cosched-emulator release 12
    """


@click.command()
@click.option(
    "-r", "--array", "expand", is_flag=True, help="Print one line per task of an array, also for pending tasks."
)
@click.option("--start", is_flag=True, help="List when pending jobs are expected to start, in what range, and where.")
@whose
@common_options()
@implementation("cosched_emulator.cli.jobs")
def queue() -> None:
    """List running and pending jobs, the jobs co-located with them, and their measured slowdown.

    \b
    Examples:
      cosched-emulator queue --me
      cosched-emulator queue --start
    """


@click.command()
@JOBS
@common_options()
@implementation("cosched_emulator.cli.jobs")
def why() -> None:
    """Say why jobs do not run, and when they will.

    \b
    Example:
      cosched-emulator why 12
    """


@click.command()
@JOBS
@common_options()
@implementation("cosched_emulator.cli.jobs")
def job() -> None:
    """Show all details of jobs, also of jobs that have ended.

    \b
    Example:
      cosched-emulator job 12
    """


@click.command()
@JOBS
@click.option("--timeout", "limit_s", type=SECONDS, metavar="S", help="Give up after S seconds.  [default: never]")
@common_options(timeout=False)
@implementation("cosched_emulator.cli.jobs")
def wait() -> None:
    """Wait until jobs have ended; exit code 0 if all of them completed, else 1.

    If the manager restarts meanwhile, the command waits up to a minute for it.

    \b
    Example:
      cosched-emulator wait 12 13 --timeout 3600
    """


@click.command()
@whose
@click.option(
    "-n",
    "--most",
    type=click.IntRange(1, 10_000),
    default=100,
    show_default=True,
    help="Show at most N jobs, the latest.",
)
@click.option("--db", "database", metavar="FILE", help="Read the manager's database; no manager is needed.")
@common_options()
@implementation("cosched_emulator.cli.history")
def history() -> None:
    """List jobs that have ended, the latest last.

    \b
    Example:
      cosched-emulator history --user ann --most 20
    """
