"""The true behaviour of a scenario's hardware, and the scheduler's belief about it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeVar

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.scenario.co_runs import PAIRS, believed_pairs, true_pairs
from cosched_emulator.scenario.schema import Scenario
from cosched_emulator.workload.job import Workload
from cosched_emulator.workload.jobs_in_columns import Jobs, columns_of
from cosched_hwmodel.bandwidth.bandwidth_model import BandwidthModel
from cosched_hwmodel.composite.composite_contention import CompositeContention
from cosched_hwmodel.composite.composite_model import CompositeModel
from cosched_hwmodel.composite.job_profile import Profile
from cosched_hwmodel.contention import ContentionModel
from cosched_hwmodel.draws import key as draw_key
from cosched_hwmodel.errors import ContentionError, HardwareModelError, UnknownNameError
from cosched_hwmodel.lomarc.lomarc_model import LomarcContention, LomarcModel
from cosched_hwmodel.models.by_name import BUILT_IN
from cosched_hwmodel.models.custom import CustomModel, load_model
from cosched_hwmodel.models.measured_pairs import MeasuredPairs, MeasuredRatios
from cosched_hwmodel.pairs import JobFacts, PairContention
from cosched_hwmodel.statistical import StatisticalContention, StatisticalModel
from cosched_hwmodel.units import WHOLE_PPM
from cosched_plugin.protocol.limits import INT64_MAX
from cosched_plugin.protocol.messages import Belief, NoteValue, SelfSlowdown, UsageTuple

_Made = TypeVar("_Made")

# Third-party contention models of a scenario: loaded by name, tried with their parameters.

_VALUES: Final = "true, false, a whole number of 64 bits, a finite number, a text, or a list of those"


def custom_model(name: str, section: str) -> CustomModel | None:
    """Return the class of the model in a section's key ``contention``; None for a built-in model.

    Raises ConfigurationError for an unknown name, and for a module that cannot be imported.
    """
    if name in BUILT_IN:
        return None
    path = f"{section}.contention"
    try:
        return load_model(name, BUILT_IN)
    except UnknownNameError as error:
        raise ConfigurationError.unknown_name(path, name, error.known) from error
    except ContentionError as error:
        raise ConfigurationError(path, "a model that can be imported", str(error)) from error


def parameters_of(table: Mapping[str, Any] | None, section: str) -> dict[str, NoteValue]:
    """Return a section's ``parameters``, lists as tuples, as messages can carry them. Raises ConfigurationError."""
    return {key: _value(value, f"{section}.parameters.{key}") for key, value in (table or {}).items()}


def _made(section: str, make: Callable[[], _Made]) -> _Made:
    """Return what is made with a section's ``parameters``; raises ConfigurationError."""
    path = f"{section}.parameters"
    try:
        return make()
    except ContentionError as error:
        raise ConfigurationError(path, f"valid parameters of {error.where}", error.text) from error
    except HardwareModelError as error:
        raise ConfigurationError(path, "parameters of composite", str(error)) from error


def composite_model(parameters: Mapping[str, NoteValue], section: str) -> CompositeModel:
    """Return the composite model with a section's ``parameters``; raises ConfigurationError."""
    return _made(section, lambda: CompositeModel.from_parameters(parameters.items()))


def refuse_parameters(table: Mapping[str, Any] | None, name: str, section: str) -> None:
    """Raise ConfigurationError for ``parameters`` of a built-in model."""
    if table:
        expected = f"nothing: {name} is built in, and has keys of its own"
        raise ConfigurationError(f"{section}.parameters", expected, ", ".join(map(str, table)))


def _value(value: object, path: str) -> NoteValue:
    match value:
        case bool() | str():
            return value
        case int() if -INT64_MAX <= value <= INT64_MAX:
            return value
        case float() if math.isfinite(value):
            return value
        case list() | tuple():
            return tuple([_value(item, f"{path}[{index}]") for index, item in enumerate(value)])
    raise ConfigurationError(path, _VALUES, repr(value))


class Hardware(NamedTuple):
    """The truth: the contention model, the composition of nodes, and the models of pairs, used or not."""

    contention: str
    composition: str
    resources: tuple[str, ...]
    lomarc: LomarcModel
    statistical: StatisticalModel
    custom: CustomModel | None  # the third-party model, if it is one
    parameters: tuple[tuple[str, NoteValue], ...]  # parameters of that model
    pairs: MeasuredRatios | None = None  # the table of measured co-runs, if it is one
    composite: CompositeModel = CompositeModel()


def build_hardware(scenario: Scenario) -> Hardware:
    """Return the true behaviour of the scenario's hardware; raises ConfigurationError."""
    truth = scenario.truth
    pair_seed = _signed(scenario.seed) if truth.pair_seed is None else truth.pair_seed
    try:
        lomarc = LomarcModel(
            remainder=truth.remainder,
            c_scope=truth.c_scope,
            cpu=truth.cpu,
            pair_seed=pair_seed,
            good_share_ppm=round(truth.good_share * WHOLE_PPM),
            paging_ppm=round(truth.paging * WHOLE_PPM),
        )
        statistical = StatisticalModel(pair_seed, truth.cos_shares)
    except HardwareModelError as error:
        raise ConfigurationError("truth", "a possible model of pairs", str(error)) from error
    custom = custom_model(truth.contention, "truth")
    parameters = parameters_of(truth.parameters, "truth")
    composite = CompositeModel()
    if truth.contention == composite.name:
        composite = composite_model(parameters, "truth")
    elif custom is None:
        refuse_parameters(truth.parameters, truth.contention, "truth")
    else:
        _made("truth", lambda: custom.make_truth(parameters.items(), {}))
    return Hardware(
        truth.contention,
        truth.composition,
        truth.resources,
        lomarc,
        statistical,
        custom,
        tuple(parameters.items()),
        true_pairs(scenario),
        composite,
    )


def build_belief(scenario: Scenario, hardware: Hardware) -> Belief:
    """Return the scheduler's belief about the hardware: the truth, unless the scenario says otherwise.

    If the truth models only nodes, not pairs of jobs, there is no belief. Raises ConfigurationError.
    """
    belief = scenario.belief
    contention = hardware.contention if belief.contention is None else belief.contention
    if belief.contention is None and hardware.custom is not None and hardware.custom.is_truth_only:
        contention = "none"
    parameters: dict[str, tuple[tuple[str, NoteValue], ...]] = {
        contention: _believed_custom(contention, scenario, hardware),
        hardware.lomarc.name: _believed_lomarc(hardware.lomarc, scenario).parameters(),
        hardware.statistical.name: _believed_statistical(hardware.statistical, scenario).parameters(),
    }
    if contention == hardware.composite.name:
        parameters[contention] = _believed_composite(scenario, hardware).parameters()
    if contention == PAIRS:
        parameters[PAIRS] = believed_pairs(scenario, hardware.pairs).parameters()
    return Belief(
        contention,
        hardware.composition if belief.composition is None else belief.composition,
        hardware.resources if belief.resources is None else belief.resources,
        parameters[contention],
    )


# The truth of each built-in model: which jobs can slow each other down by it, and how a run's model is made.


class FactsOfJobs(NamedTuple):
    """What models of a run read of its jobs, by job id; jobs of which a fact is not known are left out."""

    jobs: Mapping[int, JobFacts]
    usage: Mapping[int, UsageTuple]
    self_slowdowns: Mapping[int, SelfSlowdown]
    profiles: Mapping[int, Profile]


class Truth(NamedTuple):
    """``contends``: whether jobs like these may slow each other down. ``make``: the model for a run."""

    contends: Callable[[Jobs], bool]
    make: Callable[[Hardware, FactsOfJobs], ContentionModel | None]


def _measured(hardware: Hardware, facts: FactsOfJobs) -> ContentionModel:
    assert hardware.pairs is not None
    return PairContention(MeasuredPairs(hardware.pairs), facts.jobs)


def _custom(hardware: Hardware, facts: FactsOfJobs) -> ContentionModel:
    assert hardware.custom is not None
    return hardware.custom.make_truth(hardware.parameters, facts.jobs)


TRUTHS: Final[Mapping[str, Truth]] = {
    "none": Truth(lambda _jobs: False, lambda _hardware, _facts: None),
    "bandwidth": Truth(lambda jobs: jobs.says("demand"), lambda hardware, _facts: BandwidthModel(hardware.resources)),
    "lomarc": Truth(
        lambda jobs: jobs.knows(jobs.usage), lambda hardware, facts: LomarcContention(hardware.lomarc, facts.usage)
    ),
    "statistical": Truth(
        lambda _jobs: True, lambda hardware, facts: StatisticalContention(hardware.statistical, facts.self_slowdowns)
    ),
    PAIRS: Truth(lambda _jobs: True, _measured),
    "composite": Truth(
        lambda jobs: jobs.knows(jobs.profile),
        lambda hardware, facts: CompositeContention(hardware.composite, facts.profiles),
    ),
}
_OF_OTHERS: Final = Truth(lambda _jobs: True, _custom)


def truth_of(hardware: Hardware) -> Truth:
    """Return the truth of the scenario's model, built in or of others."""
    return TRUTHS.get(hardware.contention, _OF_OTHERS)


def contends(hardware: Hardware, workload: Workload) -> bool:
    """Return whether jobs of the workload may slow each other down: their true use of the nodes is known."""
    return truth_of(hardware).contends(columns_of(workload.jobs))


def _believed_custom(contention: str, scenario: Scenario, hardware: Hardware) -> tuple[tuple[str, NoteValue], ...]:
    """Return the parameters of a third-party model: those of the truth, overridden by the belief's."""
    own = scenario.belief.parameters
    model = custom_model(contention, "belief")
    if model is None:
        if contention != hardware.composite.name:
            refuse_parameters(own, contention, "belief")
        return ()
    parameters = dict(hardware.parameters) if contention == hardware.contention else {}
    parameters |= parameters_of(own, "belief")
    _made("belief", lambda: model.pair_factory(parameters.items()))
    return tuple(parameters.items())


def _believed_composite(scenario: Scenario, hardware: Hardware) -> CompositeModel:
    """Return the composite model of the truth, with the parameters that the belief overrides."""
    believed = dict(hardware.composite.parameters()) | parameters_of(scenario.belief.parameters, "belief")
    return composite_model(believed, "belief")


def _believed_lomarc(truth: LomarcModel, scenario: Scenario) -> LomarcModel:
    belief = scenario.belief
    return replace(
        truth,
        remainder=truth.remainder if belief.remainder is None else belief.remainder,
        c_scope=truth.c_scope if belief.c_scope is None else belief.c_scope,
        good_share_ppm=truth.good_share_ppm if belief.pairs == "exact" else 0,
    )


def _believed_statistical(truth: StatisticalModel, scenario: Scenario) -> StatisticalModel:
    """Return the truth, or a model that draws other values, which say nothing about the true ones of a pair."""
    if scenario.belief.pairs == "exact":
        return truth
    return replace(truth, pair_seed=_signed(draw_key(truth.pair_seed, "unknown pairs")))


def _signed(seed: int) -> int:
    """Return the equivalent seed (draws are modulo 2**64) that fits a signed 64-bit integer, as a belief carries it."""
    return (seed + (1 << 63)) % (1 << 64) - (1 << 63)
