"""Names that command lines offer before they import what these belong to: each owner has exactly them."""

from __future__ import annotations

from cosched_emulator import offered
from cosched_emulator.nodeos.coscheduling.policies import POLICIES
from cosched_emulator.nodeos.local import KINDS
from cosched_emulator.scenario.hardware import CONTENDS
from cosched_hwmodel.models.by_name import BUILT_IN
from cosched_plugin.common.curve import FOLDERS


def test_owners_have_the_names_that_are_offered() -> None:
    assert tuple(KINDS) == offered.LOCAL_SCHEDULERS
    assert set(POLICIES) == set(offered.COSCHEDULING)
    assert set(BUILT_IN) == set(CONTENDS) == set(offered.CONTENTION)
    assert tuple(FOLDERS) == offered.ROLES
