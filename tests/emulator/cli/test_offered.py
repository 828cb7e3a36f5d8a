"""Names that command lines offer before they import what these belong to: each owner has exactly them."""

from __future__ import annotations

import pytest

from cosched_emulator import offered
from cosched_emulator.cli.commands import serve, simulate
from cosched_emulator.nodeos.coscheduling.policies import POLICIES
from cosched_emulator.nodeos.local import _KINDS
from cosched_hwmodel.models.by_name import BUILT_IN
from cosched_plugin.common.curve import FOLDERS


def test_owners_have_the_names_that_are_offered() -> None:
    assert tuple(_KINDS) == offered.LOCAL_SCHEDULERS
    assert set(POLICIES) == set(offered.COSCHEDULING)
    assert tuple(FOLDERS) == offered.ROLES


@pytest.mark.parametrize("command", [simulate.simulate, serve.serve], ids=lambda command: command.name)
def test_the_help_names_all_models_of_contention(command: object) -> None:
    (option,) = [item for item in command.params if item.name == "contention"]  # type: ignore[attr-defined]
    assert set(option.help.removesuffix(".").split(", ")) == {*BUILT_IN, "MODULE:CLASS"}
