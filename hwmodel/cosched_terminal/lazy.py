"""Commands that are imported on use, so that help and typing errors cost no more than the import of click.

A program's group has a table of command names and one-line helps. It imports the module that declares a command when the command
line names it. The declaration (options and help) names the module that does the work, which is imported when the command runs.
"""

# Under 60 lines: until all commands are in modules of their own.

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import update_wrapper
from importlib import import_module
from typing import Any


class Implementation:
    """The function of a command: the one with the same name in ``module``, which is imported when the command runs."""

    def __init__(self, module: str, declaration: Callable[[], None]) -> None:
        update_wrapper(self, declaration)
        self.module = module
        self.attribute = declaration.__name__

    def load(self) -> Callable[..., object]:
        """Return the function that does the work."""
        collecting = gc.isenabled()
        gc.disable()  # modules are no garbage: to look for some in between takes a thirtieth of the imports
        try:
            function: Callable[..., object] = getattr(import_module(self.module), self.attribute)
        finally:
            if collecting:
                gc.enable()
        return function

    def __call__(self, *arguments: Any, **options: Any) -> object:
        """Do the work."""
        return self.load()(*arguments, **options)


def implementation(module: str) -> Callable[[Callable[[], None]], Implementation]:
    """Decorate the declaration of a command, an empty function with the help: `Implementation` in ``module`` does the work."""
    return lambda declaration: Implementation(module, declaration)
