"""What a notebook shows of a result: `Shown` gives its class ``_repr_html_`` and ``plot``."""
# Under 60 lines: a protocol between results and the views of them, which know all results and are loaded when one is shown.

from __future__ import annotations

import os
from dataclasses import field
from importlib import import_module
from pathlib import Path
from typing import Any

from cosched_hwmodel.quick_classes import frozen


@frozen
class Picture:
    """A picture that a notebook shows; ``png`` are the bytes of a file."""

    png: bytes = field(repr=False)

    def _repr_png_(self) -> bytes:
        """Return what a notebook shows."""
        return self.png


class Shown:
    """A result that can be shown: `cosched_emulator.notebook.views` says how, by class."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        return html_of(self)

    def plot(self, file: str | os.PathLike[str] | None = None, **how: Any) -> Picture | None:
        """Draw it into a .png, .svg or .pdf ``file``; without one return a picture, which a notebook shows. Needs matplotlib."""
        return picture_of(self, file, **how)


def html_of(result: object) -> str:
    """Return a result as a part of a page."""
    return str(import_module("cosched_emulator.notebook.views").html(result))


def picture_of(result: object, file: str | os.PathLike[str] | None, **how: Any) -> Picture | None:
    """Draw a result into a file, or return it as a picture; ``how`` is what its kind of pictures takes."""
    draw = import_module("cosched_emulator.notebook.views").draw
    if file is not None:
        draw(result, Path(file), **how)
        return None
    from cosched_terminal.whole_file import temporary_folder  # noqa: PLC0415 - few results are drawn

    with temporary_folder("cosched-") as folder:
        draw(result, Path(folder) / "picture.png", **how)
        return Picture((Path(folder) / "picture.png").read_bytes())
