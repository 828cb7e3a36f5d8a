"""The run folder: all results of a run, written completely or not at all.

========================  ==========================================================================
``jobs.csv``              one row per job, Batsim's columns
``allocations.csv``       every stay of every job on its nodes
``preemptions.csv``       every time of a job on disk, if there are any
``suspensions.csv``       every time in which a job was suspended on its nodes, if there are any
``quanta.csv``            who ran in each quantum, and what for, if jobs take turns
``power.csv``             the watts of the machine over time, if those of its nodes are known
``schedule.swf``          the resulting schedule, for tools that read SWF
``workload.swf``          the workload as it was run
``workload-usage.csv``    true characteristics of its jobs (`annotations`), if some are known
``workload-profiles.csv`` true profiles of its jobs (`profiles`), if some are known
``summary.json``          the figures (`metrics.summarise`)
``run.json``              what was run: resolved configuration, seed, machine, workload, versions
``timing.json``           everything that may differ between two runs of the same seed
========================  ==========================================================================

All files but ``timing.json`` are byte-identical between two runs of the same configuration and seed. A folder is
written as ``OUT.partial`` and renamed when it is whole, so a folder without that ending can be trusted.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from cosched_emulator.errors import InputError, os_errors
from cosched_emulator.results.files.run_files import (
    ALLOCATIONS,
    JOBS,
    PREEMPTIONS,
    QUANTA,
    SCHEDULE,
    SUSPENSIONS,
    RunFiles,
)
from cosched_emulator.workload.atomic_file import make_folder
from cosched_emulator.workload.job import Workload
from cosched_emulator.workload.jobs_in_columns import OF_LOGS, columns_of
from cosched_emulator.workload.swf.swf_writer import write_swf
from cosched_hwmodel.energy import NodePower
from cosched_hwmodel.text_formats import json_of
from cosched_plugin.common.trace_file import TraceFile
from cosched_plugin.protocol.messages import NodeClass

if TYPE_CHECKING:
    from cosched_emulator.results.figures.run_energy import RunEnergy


RUN_FORMAT = 1
WORKLOAD, USAGE, PROFILES = "workload.swf", "workload-usage.csv", "workload-profiles.csv"
SUMMARY, RUN, TIMING = "summary.json", "run.json", "timing.json"
POWER = "power.csv"
_SIZED: Final = (JOBS, ALLOCATIONS, PREEMPTIONS, SUSPENSIONS, QUANTA, POWER)  # `run.json` tells their sizes
TRACE = "trace.jsonl"  # on request; the caller of `new_run_folder` writes it


@contextmanager
def new_run_folder(out: str | os.PathLike[str], *, force: bool = False) -> Iterator[Path]:
    """Yield ``OUT.partial``, which becomes ``out`` when the block ends and disappears when the block raises.

    What a killed run has left there is removed. With ``force`` an older run folder is replaced; anything else is never removed. Raises
    `InputError`.
    """
    check_run_folder(out, force=force)
    target = Path(out).resolve()
    partial = _partial(target)
    try:
        if _is_left_over(partial):
            left_over = _lock(partial)
            try:
                shutil.rmtree(partial)
            finally:
                os.close(left_over)
        target.parent.mkdir(parents=True, exist_ok=True)
        partial.mkdir()
        held = _lock(partial)
    except OSError as error:
        raise InputError(str(out), "a folder that can be written", error.strerror or str(error)) from error
    try:
        yield partial
        _move_into_place(partial, target, force=force)
    except BaseException as error:
        shutil.rmtree(partial, ignore_errors=True)
        if isinstance(error, OSError):
            raise InputError(str(out), "a folder that can be written", error.strerror or str(error)) from error
        raise
    finally:
        os.close(held)


def write_files(
    folder: Path,
    files: RunFiles,
    machine: Sequence[NodeClass],
    *,
    summary: Mapping[str, Any],
    resolved_config: Mapping[str, Any],
    workload: Workload,
    timing: Mapping[str, Any],
    seed: int | None = None,
    began: float | None = None,
    energy: RunEnergy | None = None,
    power: Sequence[NodePower] | None = None,
) -> None:
    """Write all files of a run into an existing ``folder``; ``files`` has the rows of its jobs.

    With ``began``, a time of `time.perf_counter`, the timing includes the whole time since then. ``energy`` and ``power``, the watts
    of each class of nodes, are there if the watts are known.
    """
    files.complete(folder, workload, None if energy is None else energy.by_job)
    if energy is not None:
        from cosched_emulator.results.files.run_files import power_lines  # noqa: PLC0415 - few machines have watts

        _write_lines(folder / POWER, power_lines(energy.trace))
    with open(folder / WORKLOAD, "x", encoding="utf-8", newline="\n") as stream:
        write_swf(stream, workload)
    jobs = columns_of(workload.jobs)
    if not jobs.usual(OF_LOGS):
        from cosched_emulator.workload.side_files import annotations  # noqa: PLC0415 - few workloads have them

        if any(map(jobs.says, annotations.ANNOTATED)):
            _write_lines(folder / USAGE, annotations.annotation_lines(workload))
        if jobs.knows(jobs.profile):
            _write_lines(folder / PROFILES, annotations.profile_lines(workload))
    _write_json(folder / SUMMARY, summary)
    sizes = {name: (folder / name).stat().st_size for name in _SIZED if (folder / name).exists()}
    _write_json(folder / RUN, {**_description(machine, resolved_config, workload, seed, power), "bytes": sizes})
    total = {} if began is None else {"total_s": round(time.perf_counter() - began, 6)}
    _write_json(folder / TIMING, _timing({**timing, **total}, len(files)))


def read_summary(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Return ``summary.json`` of a run folder; raise `InputError` for anything else."""
    return read_json(folder, SUMMARY, ("selection", "states", "killed", "machine", "finished", "all"))


def read_json(folder: str | os.PathLike[str], name: str, keys: Iterable[str]) -> dict[str, Any]:
    """Return the object in file ``name`` of a run folder; raise `InputError` if it lacks one of ``keys``, or cannot be read."""
    path = Path(folder)
    if not path.is_dir():
        raise InputError(str(folder), "a run folder", "a file" if path.exists() else "nothing of that name")
    file = path / name
    if not file.is_file():
        raise InputError(str(folder), f"a run folder (with {name} in it)", f"a folder without {name}")
    try:
        value = json_of(file.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise InputError(str(file), "JSON", error.msg, line=error.lineno) from error
    except UnicodeDecodeError as error:
        raise InputError(str(file), "JSON", "something else") from error
    except ValueError as error:
        raise InputError(str(file), "JSON", str(error)) from error
    except OSError as error:
        raise InputError(str(file), "a file that can be read", error.strerror or str(error)) from error
    if not isinstance(value, dict):
        raise InputError(str(file), "a JSON object", type(value).__name__)
    if value.get("format") != RUN_FORMAT:
        raise InputError(str(file), str(RUN_FORMAT), repr(value.get("format")), field="format")
    for key in keys:
        if key not in value:
            raise InputError(str(file), "a value", "none", field=key)
    return value


def check_sizes(folder: str | os.PathLike[str], description: Mapping[str, Any]) -> None:
    """Raise `InputError` where a file of rows is not as long as ``run.json`` tells; those of older versions do not tell it."""
    sizes = description.get("bytes", {})
    for name, size in sizes.items() if isinstance(sizes, dict) else ():
        file = Path(folder) / str(name)
        if not file.is_file():
            raise InputError(str(file), f"{size} bytes", "no such file")
        if file.stat().st_size != size:
            raise InputError(str(file), f"{size} bytes, as {RUN} says", str(file.stat().st_size))


def check_run_folder(out: str | os.PathLike[str], *, force: bool = False) -> None:
    """Raise `InputError` before a run if its folder could not be written."""
    shown = str(out)
    target = Path(out).resolve()
    if not target.name:
        raise InputError(shown, "a new folder", "the root of the file system")
    partial = _partial(target)
    with os_errors(shown, "a folder that can be written"):
        if target.exists():
            if not force:
                raise InputError(shown, "a new folder (--force replaces an old run)", "one that exists")
            if not _is_run_folder(target):
                raise InputError(shown, "a run folder to replace", "one with something else in it, which is kept")
        if partial.exists() and not _is_left_over(partial):
            raise InputError(str(partial), "a new folder", "one with something else in it, which is kept")
        if partial.exists():
            os.close(_lock(partial))
    above = next(folder for folder in target.parents if folder.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise InputError(shown, "a folder that can be written", f"{above} cannot be written to")


def _partial(target: Path) -> Path:
    return target.with_name(target.name + ".partial")


def _lock(path: Path, how: int = os.O_RDONLY | os.O_DIRECTORY) -> int:
    """Lock a folder, so that no other run removes it, until the result is closed; InputError if another run has locked it."""
    descriptor = os.open(path, how, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise InputError(str(path), "a new file or folder", "one that another run is writing") from error
    except OSError:
        pass  # a file system without locks
    return descriptor


def _is_run_folder(path: Path) -> bool:
    """Return whether ``path`` holds a run and no other files."""
    return _is_left_over(path) and (path / RUN).is_file() and (path / JOBS).is_file()


def _is_left_over(path: Path) -> bool:
    """Return whether ``path`` is a folder that contains only files of a run, not necessarily all of them."""
    names = {*_SIZED, SCHEDULE, WORKLOAD, USAGE, PROFILES, SUMMARY, RUN, TIMING, TRACE}
    return path.is_dir() and all(inside.name in names for inside in path.iterdir())


def _move_into_place(partial: Path, target: Path, *, force: bool) -> None:
    if not force or not target.exists():
        os.rename(partial, target)
        return
    old = target.with_name(f".{target.name}.{os.getpid()}.replaced")
    os.rename(target, old)
    try:
        os.rename(partial, target)
    except BaseException:
        os.rename(old, target)
        raise
    shutil.rmtree(old, ignore_errors=True)


@cache
def own_version() -> str:
    """Return the version of this program, as it is installed."""
    for folder in sys.path:  # the name of a folder says it: to load `importlib.metadata` takes 13 ms
        for found in Path(folder).glob("cosched-*.dist-info"):
            return found.stem.partition("-")[2]
    from importlib import metadata  # noqa: PLC0415

    try:
        return metadata.version("cosched")
    except metadata.PackageNotFoundError:  # run from a source tree that is not installed
        return "unknown"


def _description(
    machine: Sequence[NodeClass],
    config: Mapping[str, Any],
    workload: Workload,
    seed: int | None,
    power: Sequence[NodePower] | None,
) -> dict[str, Any]:
    return {
        "format": RUN_FORMAT,
        "seed": seed,
        "config": config,
        "machine": [_node_class(item) for item in machine],
        **({} if power is None else {"power": [watts._asdict() for watts in power]}),
        "workload": {"origin": workload.origin, "jobs": len(workload.jobs), "notes": list(workload.notes)},
        "versions": {"cosched": own_version(), "python": platform.python_version(), "numpy": np.__version__},
    }


def _node_class(item: NodeClass) -> dict[str, Any]:
    """Return a class of nodes as plain values; what few machines have is left out where there is none of it."""
    values = item._asdict()
    for name in ("apart", "type", "same_nodes"):
        if not values[name]:
            del values[name]
    if item.hardware is None:
        del values["hardware"]
    else:
        caches = [cache._asdict() for cache in item.hardware.caches]
        values["hardware"] = {**item.hardware._asdict(), "caches": caches}
    return values


def _timing(timing: Mapping[str, Any], jobs: int) -> dict[str, Any]:
    wall_s, total_s = timing.get("wall_s"), timing.get("total_s")
    return {
        "format": RUN_FORMAT,
        **timing,
        **({"jobs_per_second": round(jobs / wall_s, 3)} if wall_s else {}),
        **({"total_jobs_per_second": round(jobs / total_s, 3)} if total_s else {}),
        "finished_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "host_cpus": os.cpu_count(),
        "platform": "-".join((*os.uname()[0::2], *platform.libc_ver())),
    }


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    with open(path, "x", encoding="utf-8", errors="backslashreplace", newline="\n") as stream:
        stream.writelines(lines)


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    _write_lines(path, (text, "\n"))


# What a run folder, or a choice of a policy, tells of the policy's parts.


def part_name(settings: Mapping[str, Any], kind: str) -> str | None:
    """Return the name of the policy's part of a kind, such as ``shape``; None: the settings name none."""
    part = settings.get(kind)
    name = part.get("name") if isinstance(part, Mapping) else None
    return name if isinstance(name, str) else None


def configuration_of(folder: Path) -> Mapping[str, Any]:
    """Return the resolved scenario of a run, with the settings of its policy; raise InputError if the folder is no run folder."""
    config = read_json(folder, RUN, ("config",))["config"]
    return config if isinstance(config, dict) else {}


def policy_settings(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the name of the policy and its parts, as far as a run's configuration has them: `serve` knows the name only."""
    policy = config.get("policy")
    return policy if isinstance(policy, dict) else {}


# The place of a decision trace during the run, and whether it becomes part of the run folder.

TRACE_BEGINS: Final = b'{"at_us":'


@contextmanager
def trace_place(trace: str, out: str | None, *, force: bool) -> Iterator[str]:
    """Yield the path to write a new trace to during the run; with ``force`` it replaces an older one.

    That is ``trace`` itself, or a file beside the run folder ``out`` if the trace belongs into it: `store` moves it there, and what an
    interrupted run has left there is removed. No other run of that folder replaces it meanwhile. If the block raises before a record is
    written, the older trace is kept. Raises InputError or UsageError if no trace can be written, or one exists without ``force``.
    """
    inside = out is not None and in_run_folder(trace, out)
    with _only_run_of(out) if out is not None and inside else nullcontext():
        path = _trace_path(trace, out, force=force)
        older = None
        if not inside and os.path.isfile(path) and not path.is_symlink():
            older = path.with_name(f".{path.name}.{os.getpid()}.replaced")
            with os_errors(trace, "a file that can be written"):
                os.rename(path, older)
        try:
            # Tried now, before a run of hours; the writer, perhaps another process, then finds no file there.
            with TraceFile(path, force=inside):
                pass
            path.unlink()
            yield str(path)
        except BaseException:
            with suppress(OSError):
                if os.path.isfile(path) and not os.path.getsize(path):
                    path.unlink()
                if older is not None and not path.exists():
                    os.rename(older, path)
                elif older is not None:
                    older.unlink()
            raise
        if older is not None:
            older.unlink(missing_ok=True)


# This process has the lock, and not the one that writes the trace: a plugin may outlive a killed run by a minute.
@contextmanager
def _only_run_of(out: str) -> Iterator[None]:
    """Raise InputError if another run with its trace in the folder ``out`` is under way; let others know of this one."""
    file = _beside(out).with_suffix(".lock")
    make_folder(file.parent)
    with os_errors(str(file), "a file that can be written"):
        held = _lock(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)
    try:
        yield
    finally:
        file.unlink(missing_ok=True)
        os.close(held)


def _trace_path(trace: str, out: str | None, *, force: bool) -> Path:
    path = Path(trace)
    if out is not None and in_run_folder(trace, out):
        path, force = _beside(out), True
    elif out is not None and _in_the_way(path.resolve(), Path(out).resolve()):
        raise InputError(trace, f"{Path(out) / TRACE}, or a file outside the run folder")
    # `Path.is_file` raises where Linux lets nobody follow the link of another user (fs.protected_symlinks).
    if not force and os.path.isfile(path):
        raise InputError(trace, "a new file for the trace (--force replaces an older one)", "one that exists")
    if force and os.path.isfile(path) and not _is_trace(path):
        raise InputError(str(path), "a trace to replace", "something else, which is kept")
    return path


def in_run_folder(trace: str, out: str) -> bool:
    """Return whether a trace belongs into the run folder ``out``; any other trace is a file of its own."""
    return Path(trace).resolve() == Path(out).resolve() / TRACE


def _in_the_way(path: Path, folder: Path) -> bool:
    """Return whether a file at ``path`` would prevent the writing of the run folder, or be lost with the folder it replaces."""
    partial = folder.with_name(f"{folder.name}.partial")
    return path in (folder, *folder.parents, partial) or folder in path.parents or partial in path.parents


def _is_trace(path: Path) -> bool:
    """Return whether a file is a decision trace, possibly an empty one."""
    try:
        with path.open("rb") as stream:
            return stream.read(len(TRACE_BEGINS)) in (b"", TRACE_BEGINS)
    except OSError:
        return True  # the error is reported when the file is to be replaced


def _beside(out: str) -> Path:
    """Return the path of a run folder's trace until the folder is written."""
    folder = Path(out).resolve()
    return folder.with_name(f"{folder.name}.partial.{TRACE}")


# A note on policies that place several jobs on one node without regard to what they cost each other.
#
# Such a policy is no baseline of whole nodes, although its name is that of a textbook policy: under shape ``threads``, which is the
# default, a job takes free hardware threads wherever they are.

# Placements that share nodes on purpose, or as far as they are told to.
ON_PURPOSE: Final = ("lessconsume", "lessconsume-threshold", "contiguous", "scattered")


def may_share_nodes(settings: Mapping[str, Any], machine: Sequence[NodeClass], *, exclusive: bool) -> bool:
    """Tell whether a policy with these settings may put several jobs on a node unasked; ``exclusive``: jobs ask for whole nodes."""
    return (
        part_name(settings, "shape") == "threads"
        and part_name(settings, "placement") not in ON_PURPOSE
        and not exclusive
        and any(item.threads > 1 for item in machine)
    )


def sharing_note(policies: Sequence[str]) -> str:
    """Return the note on such policies, given by name."""
    return f"note: {', '.join(policies)} may place several jobs on one node; --set shape=nodes for whole nodes"
