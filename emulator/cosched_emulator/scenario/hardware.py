"""How the hardware of a scenario truly behaves, and what the scheduler is told of that."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.scenario.schema import Scenario
from cosched_emulator.workload.columns import columns_of
from cosched_emulator.workload.job import Workload
from cosched_hwmodel.draws import key as draw_key
from cosched_hwmodel.errors import HardwareModelError
from cosched_hwmodel.lomarc.model import LomarcModel
from cosched_hwmodel.statistical.model import StatisticalModel
from cosched_hwmodel.units import WHOLE_PPM
from cosched_plugin.protocol.messages import Belief


class Hardware(NamedTuple):
    """The truth: which model of contention holds, how nodes compose, and the models of pairs, used or not."""

    contention: str
    composition: str
    resources: tuple[str, ...]
    lomarc: LomarcModel
    statistical: StatisticalModel


def build_hardware(scenario: Scenario) -> Hardware:
    """Return how the scenario's hardware truly behaves; raises ConfigurationError."""
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
        raise ConfigurationError("truth", "a model of pairs that can be", str(error)) from error
    return Hardware(truth.contention, truth.composition, truth.resources, lomarc, statistical)


def build_belief(scenario: Scenario, hardware: Hardware) -> Belief:
    """Return what the scheduler is told of the hardware: the truth, unless the scenario says otherwise."""
    belief = scenario.belief
    contention = hardware.contention if belief.contention is None else belief.contention
    parameters = {
        hardware.lomarc.name: _believed_lomarc(hardware.lomarc, scenario).parameters(),
        hardware.statistical.name: _believed_statistical(hardware.statistical, scenario).parameters(),
    }
    return Belief(
        contention,
        hardware.composition if belief.composition is None else belief.composition,
        hardware.resources if belief.resources is None else belief.resources,
        parameters.get(contention, ()),
    )


def contends(hardware: Hardware, workload: Workload) -> bool:
    """Return whether jobs of the workload may slow each other down: their true use of the nodes is known."""
    jobs = columns_of(workload.jobs)
    if hardware.contention == "bandwidth":
        return any(jobs.each(jobs.demand))
    if hardware.contention == hardware.lomarc.name:
        return jobs.knows(jobs.usage)
    return hardware.contention == hardware.statistical.name


def _believed_lomarc(truth: LomarcModel, scenario: Scenario) -> LomarcModel:
    belief = scenario.belief
    return replace(
        truth,
        remainder=truth.remainder if belief.remainder is None else belief.remainder,
        c_scope=truth.c_scope if belief.c_scope is None else belief.c_scope,
        good_share_ppm=truth.good_share_ppm if belief.pairs == "exact" else 0,
    )


def _believed_statistical(truth: StatisticalModel, scenario: Scenario) -> StatisticalModel:
    """Return the truth, or a model that draws other pairs: what is believed of a pair then tells nothing of that pair."""
    if scenario.belief.pairs == "exact":
        return truth
    return replace(truth, pair_seed=_signed(draw_key(truth.pair_seed, "unknown pairs")))


def _signed(seed: int) -> int:
    """Return the seed of the same draws, which are modulo 2**64, that a belief can carry: 64 bits and a sign."""
    return (seed + (1 << 63)) % (1 << 64) - (1 << 63)
