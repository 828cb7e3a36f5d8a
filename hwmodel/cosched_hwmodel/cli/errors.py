"""The error of the command ``cosched-hwmodel``."""

from __future__ import annotations

from cosched_hwmodel.errors import HardwareModelError


class CommandError(HardwareModelError):
    """An argument, or a file, that is not as expected; ``where`` names it, ``text`` says what was expected."""

    def __init__(self, where: str, text: str) -> None:
        super().__init__(f"{where}: {text}")
        self.where = where
        self.text = text

    def __reduce__(self) -> tuple[type[CommandError], tuple[str, str]]:
        """Support pickling: there are two arguments, but one text."""
        return (CommandError, (self.where, self.text))
