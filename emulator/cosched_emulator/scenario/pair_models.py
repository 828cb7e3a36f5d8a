"""Models of pairs of jobs, and those of others, as the truth of a scenario and as its scheduler's belief."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.scenario.co_runs import PAIRS, believed_pairs, true_pairs
from cosched_emulator.scenario.schema import Scenario
from cosched_hwmodel.composite.composite_contention import CompositeContention
from cosched_hwmodel.composite.composite_model import CompositeModel
from cosched_hwmodel.composite.job_profile import Profile
from cosched_hwmodel.contention import ContentionModel
from cosched_hwmodel.draws import key as draw_key
from cosched_hwmodel.errors import ContentionError, HardwareModelError, UnknownNameError, Unwanted
from cosched_hwmodel.lomarc.lomarc_model import LomarcContention, LomarcModel
from cosched_hwmodel.models.by_name import BUILT_IN
from cosched_hwmodel.models.custom import CustomModel, load_model
from cosched_hwmodel.models.measured_pairs import MeasuredPairs, MeasuredRatios
from cosched_hwmodel.pairs import JobFacts, PairContention
from cosched_hwmodel.statistical import StatisticalContention, StatisticalModel
from cosched_hwmodel.units import WHOLE_PPM
from cosched_plugin.protocol.limits import INT64_MAX
from cosched_plugin.protocol.messages import NoteValue, SelfSlowdown, UsageTuple

_Made = TypeVar("_Made")
Parameters: TypeAlias = tuple[tuple[str, NoteValue], ...]


class FactsOfJobs(NamedTuple):
    """What models of a run read of its jobs, by job id; jobs of which a fact is not known are left out."""

    jobs: Mapping[int, JobFacts]
    usage: Mapping[int, UsageTuple]
    self_slowdowns: Mapping[int, SelfSlowdown]
    profiles: Mapping[int, Profile]


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
        expected = Unwanted(f"{name} is built in, and has keys of its own")
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


# The truth.


class PairModels(NamedTuple):
    """The true models of pairs, used or not, and the one of others."""

    lomarc: LomarcModel
    statistical: StatisticalModel
    composite: CompositeModel
    custom: CustomModel | None  # the third-party model, if it is one
    parameters: Parameters  # of that model
    pairs: MeasuredRatios | None  # the table of measured co-runs, if it is one


def true_models(scenario: Scenario) -> PairModels:
    """Return the models by the scenario's settings; raises ConfigurationError."""
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
    return PairModels(lomarc, statistical, composite, custom, tuple(parameters.items()), true_pairs(scenario))


def contention_of_pairs(contention: str, models: PairModels, facts: FactsOfJobs) -> ContentionModel | None:
    """Return the model of that name for a run; None: jobs never slow each other down."""
    if contention == "none":
        return None
    if models.custom is not None:
        return models.custom.make_truth(models.parameters, facts.jobs)
    match contention:
        case "lomarc":
            return LomarcContention(models.lomarc, facts.usage)
        case "statistical":
            return StatisticalContention(models.statistical, facts.self_slowdowns)
        case "composite":
            return CompositeContention(models.composite, facts.profiles)
    assert contention == PAIRS, contention
    assert models.pairs is not None
    return PairContention(MeasuredPairs(models.pairs), facts.jobs)


# The belief.


def believed_model(contention: str, scenario: Scenario, models: PairModels) -> tuple[str, Parameters]:
    """Return the model in which the scheduler believes, and its parameters: ``contention``, unless it is one of nodes alone.

    Raises ConfigurationError.
    """
    if scenario.belief.contention is None and models.custom is not None and models.custom.is_truth_only:
        contention = "none"
    parameters: dict[str, Parameters] = {
        contention: _believed_custom(contention, scenario, models),
        models.lomarc.name: _believed_lomarc(models.lomarc, scenario).parameters(),
        models.statistical.name: _believed_statistical(models.statistical, scenario).parameters(),
    }
    if contention == models.composite.name:
        parameters[contention] = _believed_composite(scenario, models).parameters()
    if contention == PAIRS:
        parameters[PAIRS] = believed_pairs(scenario, models.pairs).parameters()
    return contention, parameters[contention]


def _believed_custom(contention: str, scenario: Scenario, models: PairModels) -> Parameters:
    """Return the parameters of a third-party model: those of the truth, overridden by the belief's."""
    own = scenario.belief.parameters
    model = custom_model(contention, "belief")
    if model is None:
        if contention != models.composite.name:
            refuse_parameters(own, contention, "belief")
        return ()
    parameters = dict(models.parameters) if contention == scenario.truth.contention else {}
    parameters |= parameters_of(own, "belief")
    _made("belief", lambda: model.pair_factory(parameters.items()))
    return tuple(parameters.items())


def _believed_composite(scenario: Scenario, models: PairModels) -> CompositeModel:
    """Return the composite model of the truth, with the parameters that the belief overrides."""
    believed = dict(models.composite.parameters()) | parameters_of(scenario.belief.parameters, "belief")
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
