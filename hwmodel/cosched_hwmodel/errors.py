"""Errors of the hardware model.

HardwareModelError
├── TopologyError               a node description that is invalid, or cannot be read
├── UnknownNameError            an unknown name (in ``names``)
├── ContentionError             a contention model of others that cannot be used, or returns invalid values
├── LomarcParameterError        an invalid parameter of the LOMARC model (in ``lomarc``)
└── StatisticalParameterError   an invalid parameter of the statistical model (in ``statistical``)
"""

from __future__ import annotations


class HardwareModelError(Exception):
    """Root of all errors that this package raises on purpose."""


class TopologyError(HardwareModelError):
    """A node description that is invalid, or cannot be read; ``where`` names the file and key."""

    def __init__(self, where: str, text: str) -> None:
        super().__init__(f"{where}: {text}" if where else text)
        self.where = where
        self.text = text


class ContentionError(HardwareModelError):
    """A contention model of others cannot be used, or returns invalid values; ``model`` is its name."""

    def __init__(self, model: str, text: str) -> None:
        super().__init__(f"contention {model}: {text}")
        self.model = model
        self.text = text

    def __reduce__(self) -> tuple[type[ContentionError], tuple[str, str]]:
        """Support pickling: there are two arguments, but one text."""
        return (ContentionError, (self.model, self.text))
