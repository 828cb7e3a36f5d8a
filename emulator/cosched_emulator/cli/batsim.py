"""The command ``batsim``: its options become a simulation, its figures a table."""

from __future__ import annotations

import json
from typing import Any, Final

import click

from cosched_emulator import offered
from cosched_emulator.cli.scenario_options import A_FILE, SCENARIO, overrides
from cosched_terminal.commands import argument, command, option
from cosched_terminal.console import say, warn
from cosched_terminal.tables import align

_TITLES: Final = {
    "Batsim's own": "workloads platform master_host mmax sharing dynamic acknowledged forward_profiles tell_run_times events"
    " forward_unknown energy config"
}


# Over 50 lines: one parameter for each option.
@command(titles=_TITLES, prints="result")
def batsim(
    scenario_file: str | None = argument("[SCENARIO.toml]", click.Path()),
    endpoint: str = option(
        "--connect ENDPOINT",
        "Where the scheduler listens: tcp:// on this machine, or ipc://.",
        default="tcp://127.0.0.1:28000",
    ),
    workloads: tuple[str, ...] = option("-w --workload FILE", "Jobs: Batsim's JSON; may be repeated.", click.Path()),
    platform: str | None = option(
        "-p --platform FILE.xml", "Hosts of a SimGrid platform, with their speeds and watts.", A_FILE
    ),
    master_host: str = option(
        "-m --master-host NAME", "Platform: the simulator's host, without jobs.", default="master_host"
    ),
    mmax: int | None = option("--mmax N", "Platform: use the first N hosts.", click.IntRange(min=1)),
    options: dict[str, Any] = SCENARIO,
    sharing: bool = option("--enable-compute-sharing", "Let jobs share hosts, as far as these have hardware threads."),
    dynamic: bool = option("--enable-dynamic-jobs", "Let the scheduler register jobs."),
    acknowledged: bool = option("--acknowledge-dynamic-jobs", "Report registered jobs like others."),
    forward_profiles: bool = option(
        "--forward-profiles-on-submission", "Send profiles with jobs, not at the beginning."
    ),
    tell_run_times: bool = option(
        "--tell-run-times", "Send whole profiles; otherwise the scheduler does not see run times."
    ),
    events: str | None = option("--events FILE", "External events: a JSON object a line.", A_FILE),
    forward_unknown: bool = option("--forward-unknown-events", "Pass on events of other types."),
    energy: bool = option("-E --energy", "States of hosts, and their energy."),
    config: str = option("--sched-cfg TEXT", "Text for the scheduler.", default=""),
    wait_s: float = option("--wait S", "Seconds to wait for a scheduler.", click.FloatRange(min=0), offered.WAIT_S),
    prefix: str | None = option("-e --export PREFIX", "Write PREFIX_jobs.csv and Batsim's other files.", A_FILE),
    force: bool = option("--force", "Replace older files."),
    as_json: bool = option("--json", "Print the figures as JSON."),
) -> None:
    """Take Batsim's place for a scheduler that was written for Batsim 4 (JSON), in virtual time.

    \b
    Examples, in two terminals:
      cosched-emulator batsim --swf log.swf --nodes 128 --cores 1 --export out
      pybatsim -t 0 -s tcp://127.0.0.1:28000 easyBackfill
    and with Batsim's own files:
      cosched-emulator batsim -p platform.xml -m master -w workload.json --export out
    """
    from cosched_emulator.batsim.platform import MASTER
    from cosched_emulator.batsim.run import Inputs, Outputs, build, run
    from cosched_emulator.batsim.simulator import Options
    from cosched_emulator.couplings.batsim_link import BatsimLink

    if acknowledged and not dynamic:
        raise click.UsageError("--acknowledge-dynamic-jobs needs --enable-dynamic-jobs")
    if platform is None and (mmax is not None or master_host != MASTER):
        raise click.UsageError("--master-host and --mmax choose among the hosts of a --platform")
    inputs = Inputs(workloads, platform, master_host, mmax, events)
    built = build(scenario_file, overrides(options), inputs, sharing=sharing)
    troubles = [host.trouble for host in built.hosts if host.trouble is not None]
    if energy and troubles:
        raise troubles[0]
    if troubles:
        others = f"; {len(troubles) - 1} other hosts likewise" if len(troubles) > 1 else ""
        warn(f"{troubles[0]}: what it draws is not known, which matters for --energy alone{others}")
    if energy and not all(host.has_watts for host in built.hosts):
        raise click.UsageError(
            "--energy needs the watts of hosts: --idle-w and --busy-w, or wattage_per_state of a platform"
        )
    for warning in built.prepared.workload.warnings:
        warn(warning)
    allowed = Options(
        sharing=sharing,
        dynamic=dynamic,
        acknowledged=acknowledged,
        forward_profiles=forward_profiles,
        forward_unknown=forward_unknown,
        energy=energy,
        tell_run_times=tell_run_times,
        config=config,
        workloads={f"w{number}": file for number, file in enumerate(workloads)} or {"w0": ""},
    )
    deadline_s = built.prepared.scenario.clock.deadline_s
    with Outputs(prefix, force=force) as outputs:
        link = BatsimLink(endpoint, wait_s=wait_s, deadline_s=deadline_s)
        figures = run(built, allowed, outputs, link)
    if as_json:
        say(json.dumps(figures, indent=2))
    else:
        say("\n".join(align(list(figures.items()), (1,), head=False)))
