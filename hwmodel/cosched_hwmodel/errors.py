"""Errors of the hardware model.

HardwareModelError
├── TopologyError               a node description that cannot be, or cannot be read
├── UnknownNameError            a name that nothing has (in ``names``)
├── ContentionError             a contention model of others that cannot be used, or says what cannot be
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


class ContentionError(HardwareModelError):
    """A contention model that others have written cannot be used, or says what cannot be; ``model`` is its name."""

    def __init__(self, model: str, text: str) -> None:
        super().__init__(f"contention {model}: {text}")
        self.model = model
        self.text = text

    def __reduce__(self) -> tuple[type[ContentionError], tuple[str, str]]:
        """Survive pickling: the arguments are two, the text one."""
        return (ContentionError, (self.model, self.text))
