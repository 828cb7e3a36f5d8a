"""The command ``serve``."""

from __future__ import annotations

import click

from cosched_emulator import offered
from cosched_emulator.cli.scenario_options import a_file, scenario_options, sets
from cosched_terminal.lazy import implementation


@click.command()
@click.argument("scenario_file", metavar="[SCENARIO.toml]", required=False, type=click.Path())
@click.option(
    "--bind",
    "endpoint",
    metavar="ENDPOINT",
    help="Where to listen for the scheduler (ipc://, or tcp://: beyond loopback with --keys only).  "
    "[default: ipc:///run/cosched/scheduler.sock, if that folder can be written to]",
)
@scenario_options
@sets(
    "clock.mode",
    "--clock",
    type=click.Choice(offered.CLOCK_MODES),
    help=f"How time passes.  [default: {offered.CLOCK_MODE}]",
)
@sets("clock.speed", "--speed", type=float, metavar="N", help="Scaled clock: emulated seconds a second.")
@click.option(
    "--users", metavar="ENDPOINT", help="Running clock: where to listen for users (ipc://, or tcp:// with --keys)."
)
@click.option(
    "--db", callback=a_file, metavar="FILE", help="Keep accounts in FILE; after a crash the run resumes from them."
)
@click.option(
    "--standby",
    is_flag=True,
    help="Running clock, with --db: while another manager has FILE, stand by, and take over when it ends or hangs.",
)
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Running clock, with --db: if FILE is damaged, put it aside, and go on from the part that is whole.",
)
@click.option(
    "--compact",
    is_flag=True,
    help="Running clock, with --db: first replace the journal in FILE by what is alive; accounts of ended jobs stay.",
)
@click.option(
    "--archive",
    callback=a_file,
    metavar="FILE",
    help="As --compact; accounts of ended jobs go to this FILE, with the same tables.",
)
@click.option(
    "--keep",
    type=click.FloatRange(min=0),
    metavar="S",
    help="With --archive: those of the last S emulated seconds stay.  [default: 0]",
)
@click.option("--keys", callback=a_file, metavar="FOLDER", help="Keyring of this manager and of its peers.")
@click.option("--operator", "operators", multiple=True, metavar="USER", help="User with all rights; may be repeated.")
@click.option(
    "--faults",
    callback=a_file,
    metavar="FILE",
    help="Instead of the scenario's: a fault plan in TOML, or events of Batsim's.",
)
@click.option("--until", type=click.FloatRange(min=0), metavar="S", help="Running clock: end after S emulated seconds.")
@click.option("--check", is_flag=True, help="Running clock: check all invariants after every step.")
@click.option("--metrics", metavar="HOST:PORT", help="Running clock: serve Prometheus there (loopback only).")
@click.option(
    "--estimate-starts",
    is_flag=True,
    help="Running clock, with --users: estimate when pending jobs start, in a process of its own (queue --start, why).",
)
@click.option(
    "--copy-policy",
    "copied",
    multiple=True,
    metavar="MODULE:CLASS",
    help="Policy or part from outside that this process may import for that; may be repeated.",
)
@click.option("--log-json", is_flag=True, help="Log as JSON lines on standard error.")
@sets(
    "clock.wait_s",
    "--wait",
    type=click.FloatRange(min=0),
    metavar="S",
    help=f"Virtual: seconds to wait for a scheduler.  [default: {offered.WAIT_S:g}]",
)
@click.option("--out", type=click.Path(), metavar="DIR", help="Write the run folder there at the end.")
@click.option("--force", is_flag=True, help="Replace an older run folder.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@implementation("cosched_emulator.cli.serve")
def serve() -> None:
    """Run the manager for a scheduler in another terminal.

    In virtual time: wait for the scheduler, run the scenario, exit. With a running clock: emulate the jobs of the scenario and of
    users until a signal; jobs stay pending while there is no scheduler.

    \b
    Examples, in two terminals:
      cosched-emulator serve scenario.toml --bind ipc:///tmp/cosched.sock --out runs/rua
      cosched-plugin serve --connect ipc:///tmp/cosched.sock --policy rua
    and a live manager for users:
      cosched-emulator serve --nodes 16 --clock scaled --speed 100 --bind ipc:///tmp/cosched.sock \\
          --users ipc:///tmp/cosched-users.sock --db cluster.db
    """
