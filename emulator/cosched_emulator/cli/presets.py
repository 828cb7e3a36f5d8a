"""The command ``presets``."""

from __future__ import annotations

import json
from dataclasses import asdict

from cosched_terminal.commands import command, option
from cosched_terminal.console import say


@command()
def presets(as_json: bool = option("--json", "Machine-readable output.")) -> None:
    """List the shapes of nodes that ship with cosched.

    \b
    Example:
      cosched-emulator presets --json
    """
    from cosched_hwmodel.topology import load_preset, preset_names

    shapes = [load_preset(name) for name in preset_names()]
    if as_json:
        say(json.dumps([{**asdict(shape), "threads": shape.threads} for shape in shapes], indent=2))
        return
    for shape in shapes:
        rates = f"{shape.memory_bandwidth_mbs} MB/s memory" if shape.memory_bandwidth_mbs else "bandwidth unlimited"
        layout = f"{shape.sockets} x {shape.cores_per_socket} cores x {shape.threads_per_core} threads"
        say(f"{shape.name:<18}{layout:<28}{shape.memory_mb:>9} MiB  {rates}")
