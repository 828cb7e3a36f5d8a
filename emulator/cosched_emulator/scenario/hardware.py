"""The true behaviour of a scenario's hardware, and the scheduler's belief about it.

Models of pairs, and those of others, are made by `pair_models`, for a scenario that names one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from cosched_emulator.scenario.schema import Scenario
from cosched_emulator.scenario.sections import TruthSection
from cosched_emulator.workload.job import Workload
from cosched_emulator.workload.jobs_in_columns import Jobs, columns_of
from cosched_plugin.protocol.messages import Belief, NoteValue

if TYPE_CHECKING:
    from cosched_emulator.scenario.pair_models import PairModels
    from cosched_hwmodel.lomarc.lomarc_model import LomarcModel
    from cosched_hwmodel.models.measured_pairs import MeasuredRatios

_OF_NODES: Final = frozenset((None, "none", "bandwidth"))  # contention without a model of pairs; None: the truth's


class Hardware(NamedTuple):
    """The truth: the contention model, and the composition of nodes."""

    contention: str
    composition: str
    resources: tuple[str, ...]
    models: PairModels | None = None  # of pairs, and of others; None: the scenario names none

    @property
    def pairs(self) -> MeasuredRatios | None:
        """Return the table of measured co-runs, if it is one."""
        return None if self.models is None else self.models.pairs

    @property
    def lomarc(self) -> LomarcModel:
        """Return the formula of the LOMARC paper; only for a scenario that names a model of pairs."""
        assert self.models is not None
        return self.models.lomarc


def build_hardware(scenario: Scenario) -> Hardware:
    """Return the true behaviour of the scenario's hardware; raises ConfigurationError."""
    truth = scenario.truth
    models = None
    if _names_pairs(scenario):
        from cosched_emulator.scenario.pair_models import true_models  # noqa: PLC0415 - many scenarios have no such model

        models = true_models(scenario)
    return Hardware(truth.contention, truth.composition, truth.resources, models)


def build_belief(scenario: Scenario, hardware: Hardware) -> Belief:
    """Return the scheduler's belief about the hardware: the truth, unless the scenario says otherwise.

    If the truth models only nodes, not pairs of jobs, there is no belief. Raises ConfigurationError.
    """
    belief = scenario.belief
    contention = hardware.contention if belief.contention is None else belief.contention
    parameters: tuple[tuple[str, NoteValue], ...] = ()
    if hardware.models is not None:
        from cosched_emulator.scenario.pair_models import believed_model  # noqa: PLC0415 - likewise

        contention, parameters = believed_model(contention, scenario, hardware.models)
    return Belief(
        contention,
        hardware.composition if belief.composition is None else belief.composition,
        hardware.resources if belief.resources is None else belief.resources,
        parameters,
    )


def _names_pairs(scenario: Scenario) -> bool:
    """Tell whether the scenario names a model of pairs or of others, or a setting of one, which is checked even without effect."""
    truth, belief = scenario.truth, scenario.belief
    plain = TruthSection(truth.contention, truth.composition, truth.resources)
    return not {truth.contention, belief.contention} <= _OF_NODES or truth != plain or belief.parameters is not None


# Which jobs may slow each other down by each built-in model: their true use of the nodes is known. By a model of others, any may.
CONTENDS: Final[Mapping[str, Callable[[Jobs], bool]]] = {
    "none": lambda _jobs: False,
    "bandwidth": lambda jobs: jobs.says("demand"),
    "lomarc": lambda jobs: jobs.knows(jobs.usage),
    "statistical": lambda _jobs: True,
    "pairs": lambda _jobs: True,
    "composite": lambda jobs: jobs.knows(jobs.profile),
}


def contends(hardware: Hardware, workload: Workload) -> bool:
    """Return whether jobs of the workload may slow each other down."""
    contend = CONTENDS.get(hardware.contention)
    return contend is None or contend(columns_of(workload.jobs))
