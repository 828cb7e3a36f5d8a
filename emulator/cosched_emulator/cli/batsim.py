"""The command ``batsim``: its options become a simulation, its figures a table."""

from __future__ import annotations

import json
from typing import Any

import click

from cosched_emulator.batsim.happenings import Options
from cosched_emulator.batsim.outputs import Outputs
from cosched_emulator.batsim.platform import MASTER
from cosched_emulator.batsim.run import Inputs, build, run
from cosched_emulator.cli.reporting import warn
from cosched_emulator.cli.scenario_options import overrides
from cosched_emulator.couplings.batsim_link import BatsimLink
from cosched_terminal.console import align, say


# Over 50 lines: one argument for each option, passed on.
def batsim(
    scenario_file: str | None,
    endpoint: str,
    workloads: tuple[str, ...],
    platform: str | None,
    master_host: str,
    mmax: int | None,
    sharing: bool,
    dynamic: bool,
    acknowledged: bool,
    forward_profiles: bool,
    tell_run_times: bool,
    events: str | None,
    forward_unknown: bool,
    energy: bool,
    config: str,
    wait_s: float,
    prefix: str | None,
    force: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Take Batsim's place for a scheduler that was written for Batsim 4 (JSON), in virtual time."""
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
        say("\n".join(align(list(figures.items()), (1,))))
