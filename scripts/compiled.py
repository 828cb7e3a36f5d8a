"""The build hook that compiles the scheduler's state to machine code: `HATCH_BUILD_HOOKS_ENABLE=1 pip install .`.

mypyc turns the modules of `COMPILED` into C, which needs a C compiler and Python's headers. The wheel has their sources, too. The tree
stays as it is, and so does an editable installation: a module that is compiled there would hide later changes of its source.

What must stay Python: checks of decisions (mypyc takes True for 1, refuses a wrong type before they name it, and drops the cause of an
error), parts (they are read by signature, and their authors step through them), what a live manager pickles, and the loop of a run
(signals are handled between instructions of Python).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOTS: Final = ("hwmodel", "plugin", "emulator")
COMPILED: Final = (
    *(f"plugin/cosched_plugin/core/{name}.py" for name in ("first_fit", "state", "work")),
    *(f"plugin/cosched_plugin/ledger/{name}.py" for name in ("ledger", "running")),
    *(
        f"plugin/cosched_plugin/core/views/{name}.py"
        for name in ("availability", "view", "virtual_machine", "whole_nodes")
    ),
    "plugin/cosched_plugin/policies/backfilling/compression.py",
    *(f"plugin/cosched_plugin/policies/planning/{name}.py" for name in ("placed_profile", "profile", "reservation")),
)


class Compiled(BuildHookInterface[Any]):
    """Adds the compiled modules to a wheel."""

    _folder: Path | None = None  # of what is built

    def dependencies(self) -> list[str]:
        """Return what the build needs: mypyc, and the types of the libraries that the modules use."""
        return ["mypy>=1.11", "setuptools", *self.metadata.core.dependencies]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and have the results put beside their sources in the wheel."""
        if version == "editable":
            raise SystemExit("an editable installation is not compiled: pip install . without --editable")
        self._folder = folder = Path(tempfile.mkdtemp(prefix="cosched-compiled-"))
        try:
            for built in compile_modules(Path(self.root), folder):
                build_data["force_include"][str(built)] = str(built.relative_to(folder / "lib"))
        except BaseException:
            shutil.rmtree(folder)
            raise
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002 - hatchling's
        """Remove what was built: the wheel holds it."""
        if self._folder is not None:
            shutil.rmtree(self._folder)


def compile_modules(project: Path, folder: Path) -> list[Path]:
    """Compile the modules into ``folder``/lib, and return the files there."""
    from mypyc.build import mypycify  # noqa: PLC0415 - only the build environment has these
    from setuptools import Distribution  # noqa: PLC0415 - likewise
    from setuptools.errors import CCompilerError, PlatformError  # noqa: PLC0415 - likewise

    os.environ["MYPYPATH"] = os.pathsep.join([str(project / root) for root in ROOTS])
    sources = [str(project / name) for name in COMPILED]
    options = ["--config-file=", "--explicit-package-bases", "--ignore-missing-imports"]
    modules = mypycify([*options, *sources], target_dir=str(folder / "c"), debug_level="0")
    building = Distribution({"name": "cosched", "ext_modules": modules}).get_command_obj("build_ext")
    building.build_lib, building.build_temp = str(folder / "lib"), str(folder / "objects")
    building.ensure_finalized()
    try:
        building.run()
    except (CCompilerError, PlatformError) as error:
        raise SystemExit(f"compiling needs a C compiler and Python's headers: {error}") from error
    return sorted((folder / "lib").rglob("*.so"))
