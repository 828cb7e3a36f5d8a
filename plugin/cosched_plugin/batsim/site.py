"""What Batsim's hosts and jobs are to the scheduler: nodes in the order of their names, and jobs with what they ask of a node.

A host is a node of one core, with as many hardware threads as jobs may share it: Batsim knows no cores or threads, and a job has
whole hosts, one process on each. What Batsim does not tell stands in properties of hosts, in an object ``cosched`` of a job or of
its profile (fields of a job as in PROTOCOL.md), or in a site file:

    [hosts]                     # properties of the same names in the platform come first
    jobs = 2                    # most jobs on a host; more than one needs Batsim's --enable-compute-sharing
    memory_mb = 512             # likewise memory_bandwidth_mbs, network_mbs, disk_mbs
    [belief]
    contention = "lomarc"       # likewise composition, resources, and a table of parameters
    [jobs]                      # fields of every job; those of its profile, then its own, come first
    estimate_us = 86400000000   # of jobs without a walltime
    [profiles.solver]
    usage = ["cpu", 800000, 200000, 0, 250000]

The run time in a profile is not read: a scheduler does not know it.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any, Final, NamedTuple

from cosched_plugin.batsim.messages import Data, flag, listed, microseconds, obj, refuse, text, walltime_us, whole
from cosched_plugin.common.errors import UsageError
from cosched_plugin.common.slurm_notation import natural
from cosched_plugin.protocol.errors import Fault, RemoteProtocolError
from cosched_plugin.protocol.limits import MAX_SPAN_US
from cosched_plugin.protocol.messages import Belief, JobSpec, NodeClass
from cosched_plugin.protocol.values import frozen
from cosched_plugin.protocol.vocabulary import JOB
from cosched_plugin.site.site_table import amounts_in, belief_in, table_of

FIELDS: Final = "cosched"  # the object with a job's fields
MOST_JOBS: Final = 64  # on a host
DAY_US: Final = 86_400_000_000
_CAPACITIES: Final = ("memory_mb", "memory_bandwidth_mbs", "network_mbs", "disk_mbs")
_ESTIMATE: Final = "estimate_us"
OF_JOB: Final = ("user", "name", "memory_mb", "demand", "usage", "self_slowdown", "profile", "priority", _ESTIMATE)
_OFFLINE: Final = "unavailable"


class SiteFile(NamedTuple):
    """What a site file says; without one, nothing."""

    jobs: int | None = None  # most jobs on a host; None: as the policy needs
    capacities: Mapping[str, int] = {}
    belief: Belief = Belief("none", "bulk-synchronous", ())
    of_jobs: Mapping[str, Any] = {}
    of_profiles: Mapping[str, Mapping[str, Any]] = {}


def read_site_file(file: str) -> SiteFile:
    """Return what a site file says; raises UsageError with the file, the key, what was expected and what was there."""
    top = table_of(file)
    hosts, profiles = top.table("hosts"), top.table("profiles")
    site = SiteFile(
        hosts.whole("jobs", 1, 1, MOST_JOBS) if hosts.has("jobs") else None,
        amounts_in(hosts, _CAPACITIES),
        belief_in(top.table("belief"), file),
        top.table("jobs").every(),
        {name: profiles.table(name).every() for name in profiles.names()},
    )
    top.end()
    try:
        for path, fields in (
            ("jobs", site.of_jobs),
            *((f"profiles.{name}", each) for name, each in site.of_profiles.items()),
        ):
            _check_fields(fields, path)
    except RemoteProtocolError as error:
        raise UsageError(f"{file}: {error}") from error
    return site


def _check_keys(table: Data, known: set[str], path: str) -> None:
    for key in table:
        if key not in known:
            refuse(f"{path}.{key}" if path else key, f"one of {', '.join(sorted(known))}", key)


def _check_fields(fields: Data, path: str) -> None:
    """Refuse fields that no job here has, and values that they cannot have."""
    _check_keys(fields, set(OF_JOB), path)
    spec_of({"id": 0, "submit_us": 0, "processes": 1, "estimate_us": 1, **fields}, path)


class Hosts(NamedTuple):
    """The compute hosts of a simulation: node n of the scheduler is the n-th by name, and has a number of Batsim's."""

    classes: tuple[NodeClass, ...]
    numbers: tuple[int, ...]  # Batsim's, by node
    nodes: Mapping[int, int]  # by number of Batsim's
    down: tuple[int, ...]  # nodes that cannot be used as the simulation begins
    shared: bool  # Batsim lets jobs share hosts


def read_hosts_of(begins: Data, path: str, site: SiteFile, jobs: int) -> Hosts:
    """Return the hosts that SIMULATION_BEGINS describes, each with places for ``jobs`` jobs."""
    found: list[tuple[tuple[tuple[str, int], ...], str, int, NodeClass, bool]] = []
    numbers: set[int] = set()
    for index, each in enumerate(listed(begins, "compute_resources", path)):
        place = f"{path}.compute_resources[{index}]"
        if type(each) is not dict:
            refuse(place, "an object", each)
        number, name = whole(each, "id", place, 0, 1 << 30), text(each, "name", place)
        if number in numbers:
            refuse(f"{place}.id", "a number that no other host has", number)
        numbers.add(number)
        properties = obj(each, "properties", place) if "properties" in each else {}
        kind = _node_class(properties, f"{place}.properties", site, jobs)
        found.append((natural(name), name, number, kind, each.get("state") == _OFFLINE))
    if not found:
        refuse(f"{path}.compute_resources", "at least one host", [])
    found.sort(key=lambda host: (host[0], host[1], host[2]))
    classes = [kind._replace(nodes=len(list(alike))) for kind, alike in groupby([host[3] for host in found])]
    ordered = tuple(host[2] for host in found)
    return Hosts(
        tuple(classes),
        ordered,
        {number: node for node, number in enumerate(ordered)},
        tuple(node for node, host in enumerate(found) if host[4]),
        flag(begins, "allow_compute_sharing", path),
    )


def _node_class(properties: Data, path: str, site: SiteFile, jobs: int) -> NodeClass:
    amounts = []
    for key in _CAPACITIES:
        amount = properties.get(key)
        if amount is None:
            amounts.append(site.capacities.get(key, 0))
        elif type(amount) is str and amount.isascii() and amount.isdigit() and len(amount) < 12:
            amounts.append(int(amount))
        else:
            refuse(f"{path}.{key}", "a whole number as a string", amount)
    memory_mb, memory_bandwidth_mbs, network_mbs, disk_mbs = amounts
    return NodeClass(1, 1, 1, jobs, memory_mb, memory_bandwidth_mbs, network_mbs, disk_mbs)


class JobReader:
    """Makes the scheduler's descriptions of Batsim's jobs."""

    def __init__(self, site: SiteFile, begins: Data, path: str, jobs: int) -> None:
        self._site = site
        self._jobs = jobs
        self._of_profiles: dict[str, dict[str, Any]] = {}  # by workload and name, as one text
        for workload, profiles in (obj(begins, "profiles", path) if "profiles" in begins else {}).items():
            for name, profile in profiles.items() if type(profiles) is dict else ():
                if type(profile) is dict and FIELDS in profile:
                    place = f"{path}.profiles.{workload}.{name}"
                    self._of_profiles[f"{workload}!{name}"] = self._fields_in(profile, place)

    def read(self, data: Data, path: str, job_id: int, now_us: int) -> JobSpec:
        """Return the job of a JOB_SUBMITTED, numbered ``job_id``; raises RemoteProtocolError."""
        place = f"{path}.job"
        job = obj(data, "job", path)
        processes = whole(job, "res", place, 1, 1 << 30)
        submit_us = min(now_us, microseconds(job, "subtime", place))
        limit_us = walltime_us(job, place)
        fields = self._fields_of(data, job, path)
        user = job.get("user", "")
        estimate_us = fields.get("estimate_us", limit_us or DAY_US)
        if (
            fields.keys() <= {_ESTIMATE}
            and type(user) is str
            and type(estimate_us) is int
            and 0 < estimate_us <= MAX_SPAN_US
        ):
            if limit_us is not None:
                estimate_us = min(estimate_us, limit_us) if FIELDS in job else limit_us
            spec = JobSpec(job_id, submit_us, processes, estimate_us, limit_us, user[:64])
        else:
            raw = {"user": user if type(user) is str else str(user), "estimate_us": DAY_US, **fields}
            if limit_us is not None:
                own_us = raw["estimate_us"] if "estimate_us" in self._fields_in(job, place) else limit_us
                raw["estimate_us"] = min(limit_us, own_us) if type(own_us) is int else own_us
            raw |= {"id": job_id, "submit_us": submit_us, "processes": processes, "limit_us": limit_us}
            spec = spec_of(raw, f"{place}.{FIELDS}")
        return spec._replace(ppn_max=1) if self._jobs > 1 else spec

    def _fields_of(self, data: Data, job: Data, path: str) -> dict[str, Any]:
        """Return a job's fields: of all jobs, of its profile in the site file and in the workload, and its own."""
        site = self._site
        name = job.get("profile")
        fields: dict[str, Any] = dict(site.of_jobs)
        if type(name) is str:
            fields |= site.of_profiles.get(name, {})
            workload = str(data.get("job_id")).partition("!")[0]
            fields |= self._of_profiles.get(f"{workload}!{name}", {})
        forwarded = data.get("profile")
        if type(forwarded) is dict and FIELDS in forwarded:
            fields |= self._fields_in(forwarded, f"{path}.profile")
        if FIELDS in job:
            fields |= self._fields_in(job, f"{path}.job")
        return fields

    def _fields_in(self, owner: Data, path: str) -> dict[str, Any]:
        if FIELDS not in owner:
            return {}
        fields = obj(owner, FIELDS, path)
        _check_keys(fields, set(OF_JOB), f"{path}.{FIELDS}")
        return fields


def spec_of(raw: Mapping[str, Any], path: str) -> JobSpec:
    """Return the job with these fields by the rules of the scheduler protocol; raises RemoteProtocolError under ``path``."""
    try:
        spec = JOB.read(frozen(raw))
    except RecursionError:
        refuse(path, "fields of a job, without lists in lists", raw)
    except Fault as fault:
        raise RemoteProtocolError(fault.code, f"{path}.{fault.path}" if fault.path else path, fault.text) from fault
    assert isinstance(spec, JobSpec)
    if spec.estimate_us > MAX_SPAN_US:
        refuse(f"{path}.estimate_us", f"at most {MAX_SPAN_US}", spec.estimate_us)
    return spec
