"""Errors of the hardware model.

HardwareModelError
└── TopologyError    a node description that cannot be, or cannot be read
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
