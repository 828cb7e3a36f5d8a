"""Errors of the hardware model.

HardwareModelError
├── TopologyError               a node description that cannot be, or cannot be read
├── UnknownNameError            a name that nothing has (in ``names``)
├── LomarcParameterError        a parameter of the LOMARC model that cannot be (in ``lomarc``)
└── StatisticalParameterError   a parameter of the statistical model that cannot be (in ``statistical``)
"""

from __future__ import annotations


class HardwareModelError(Exception):
    """Root of everything that this package raises on purpose."""


class TopologyError(HardwareModelError):
    """A node description that cannot be, or cannot be read; ``where`` names the file and key."""

    def __init__(self, where: str, text: str) -> None:
        super().__init__(f"{where}: {text}" if where else text)
        self.where = where
        self.text = text
