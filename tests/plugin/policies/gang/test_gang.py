"""Gang scheduling against the literal reference, and the edge cases of its matrix."""

from __future__ import annotations

import pytest
from tests.plugin.policies.gang.gang_cases import compare


@pytest.mark.parametrize("block", range(4))
def test_quantum_by_quantum_as_the_reference(block: int) -> None:
    for seed in range(block * 25, block * 25 + 25):
        compare(seed, 60)
