"""Garbage collection in programs that run for long: objects from before the work began are not examined again."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

YOUNG: Final = 5_000  # new objects between two collections of the young ones; Python counts to 700


@contextmanager
def freeze_heap() -> Iterator[None]:
    """Exclude all present objects, such as code and settings, from garbage collections: they stay alive anyway.

    Otherwise a full collection examines a hundred thousand objects of modules: 15 to 30 ms, in the middle of a decision. New
    objects are examined less often, too: their collections took a tenth of a run's time and found next to nothing, as there are
    hardly any circles of references.
    """
    young, middle, old = gc.get_threshold()
    gc.freeze()
    if young:  # else there are no collections
        gc.set_threshold(max(young, YOUNG), middle, old)
    try:
        yield
    finally:
        gc.set_threshold(young, middle, old)
        gc.unfreeze()
