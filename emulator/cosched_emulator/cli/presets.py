"""The commands ``presets`` and ``completion``."""

from __future__ import annotations

import json
from dataclasses import asdict

from cosched_terminal.commands import argument, command, option
from cosched_terminal.console import say
from cosched_terminal.tables import align


@command(prints="tables")
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
    rows = [("SHAPE", "SOCKETS x CORES x THREADS", "MEMORY_MIB", "MEMORY_MB/S")]
    for shape in shapes:
        layout = f"{shape.sockets} x {shape.cores_per_socket} x {shape.threads_per_core}"
        bandwidth = f"{shape.memory_bandwidth_mbs}" if shape.memory_bandwidth_mbs else "unlimited"
        rows.append((shape.name, layout, str(shape.memory_mb), bandwidth))
    say("\n".join(align(rows, (2, 3))))


@command()
def completion(shell: str = argument(kind=("bash", "zsh", "fish"))) -> None:
    """Print the script by which SHELL completes commands, options and values of all three programs.

    \b
    Example, for fish:
      cosched-emulator completion fish | source
    For bash in ~/.bashrc, or zsh in ~/.zshrc:
      eval "$(cosched-emulator completion bash)"
    """
    from cosched_terminal.completion import script_of

    say(script_of(shell))
