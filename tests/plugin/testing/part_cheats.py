"""Parts that violate their protocols."""

from __future__ import annotations

from typing import cast

from cosched_plugin import api
from cosched_plugin.policies.placement.compact import FirstFit


class SmallFirst(api.Order):
    by_arrival = True

    def arrange(self, jobs: list[api.JobSpec], view: api.View) -> list[api.JobSpec]:
        return sorted(jobs, key=lambda job: job.processes)


class Forgetful(api.Order):
    def arrange(self, jobs: list[api.JobSpec], view: api.View) -> list[api.JobSpec]:
        return jobs[1:]


class Ungated(api.Matching):
    def seat(self, offer: api.Offer, context: api.Context, gate: api.Gate) -> api.Seat | None:
        return offer


class Undecided(api.Matching):
    def seat(self, offer: api.Offer, context: api.Context, gate: api.Gate) -> api.Seat | None:
        return offer if gate.admit(offer) and offer.job.id % 5 else None


class Blind(FirstFit):
    """Offer threads although other jobs hold them."""

    counts = False

    def offer(self, job: api.JobSpec, snapshot: api.Snapshot) -> api.Offer | None:
        return super().offer(job, snapshot._replace(free=snapshot.view.machine.exists))


class Late(FirstFit):
    counts = False

    def offer(self, job: api.JobSpec, snapshot: api.Snapshot) -> api.Offer | None:
        offer = super().offer(job, snapshot)
        return None if offer is None else offer._replace(start_us=offer.start_us + 1)


class Halving(FirstFit):
    counts = False

    def price(self, job: api.JobSpec, view: api.View) -> int:
        return cast(int, job.processes / 2)


class Plain(api.Shape):
    provides = frozenset({api.WHOLE_NODES})

    def shaped(self, view: api.View) -> api.View:
        return view


CHEATS = [
    ({"order": f"{__name__}:SmallFirst"}, "SmallFirst: by_arrival: expected jobs ["),
    ({"order": f"{__name__}:Forgetful"}, "Forgetful: arrange: expected jobs ["),
    ({"matching": f"{__name__}:Ungated"}, "Ungated: seat: expected a seat that the gate has admitted, got Offer"),
    ({"matching": f"{__name__}:Undecided"}, "Undecided: seat: expected the seat that the gate has admitted, Offer"),
    ({"placement": f"{__name__}:Blind"}, "Blind: offer: expected free threads for job "),
    ({"placement": f"{__name__}:Late"}, "Late: offer: expected a place for job "),
    ({"placement": f"{__name__}:Halving"}, "Halving: price: expected a whole number of units, 0 or more, got "),
    (
        {"shape": f"{__name__}:Plain"},
        "Plain: shaped: expected a view of whole nodes, as it provides whole nodes, got View",
    ),
]
