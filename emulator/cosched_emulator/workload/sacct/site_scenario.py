"""What a scenario has of a site's facts: nodes, partitions, limits, outages, reservations, the policy, and columns of its jobs.

What a fact says that no scenario has is told.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from cosched_emulator.workload.sacct.sacct_jobs import Jobs, LoggedJob
from cosched_emulator.workload.sacct.sacct_sharing import memory_of
from cosched_emulator.workload.sacct.site_facts import Facts, Node, Outage, Record
from cosched_emulator.workload.side_files.annotations import MOST_PRIORITY
from cosched_hwmodel.units import amounts_text
from cosched_plugin.common.limits import ENFORCED, NO_LIMIT, UNBOUND, Association, Limited, Qos
from cosched_plugin.common.sacct_rows import each_of
from cosched_plugin.common.slurm_notation import ranges_text

COLUMNS: Final = (
    *("priority", "memory_mb", "partition", "qos", "account", "resources"),
    *("after", "begin_s", "cancel_s", "array", "at_once"),
)
_NICE: Final = re.compile(r"\s--nice(?:[= ](-?[0-9]{1,9}))?(?=\s|$)", re.ASCII)
_USUAL_NICE: Final = 100
_ROOT: Final = "root"  # of all accounts
_OUT: Final = re.compile("DOWN|DRAIN|FAIL|MAINT|REBOOT|NOT_RESPONDING|INVAL", re.ASCII)
_USUAL_DEPTH: Final = 500  # bf_max_job_test
# Keys of a configuration that bind jobs or order them otherwise, with what they are called.
_ALSO: Final = (
    ("PriorityWeightTRES", "the weights of TRES in priorities"),
    ("PriorityUsageResetPeriod", "resets of usage"),
    ("Licenses", "licences"),
)
# Of `SchedulerParameters`.
_AGAIN: Final = frozenset({"HOURLY", "DAILY", "WEEKDAY", "WEEKEND", "WEEKLY"})  # flags of reservations
_ALSO_OF_BACKFILL: Final = (
    *("bf_max_job_user", "bf_max_job_part", "bf_max_job_assoc", "bf_max_job_user_part", "assoc_limit_stop"),
)

NameOf = Callable[[str, str], str]  # of a kind and a name: what the scenario calls it


class SiteScenario(NamedTuple):
    """The parts of a scenario that facts give; each a list of lines, empty where no fact is about it."""

    classes: tuple[tuple[int, int], ...]  # (nodes, cores of each), in order of the nodes
    machine: tuple[str, ...]  # the file of nodes
    tables: tuple[str, ...]  # partitions, accounts, limits, script
    policy: tuple[str, ...]
    cells: tuple[Sequence[str], ...]  # of each job, in the order of `COLUMNS`; without those of numbers of jobs
    unmodelled: tuple[str, ...]
    numbers: Mapping[str, int]  # of nodes, by name


def site_scenario(
    facts: Facts, jobs: Jobs, name_of: NameOf, user_of: Callable[[str], str], threads_per_core: int
) -> SiteScenario:
    """Return what a scenario of some jobs, in order of their submission, has of a site's facts."""
    site = _Site(facts, jobs, name_of, user_of, threads_per_core)
    limits = (*site.limits(),)
    accounts = site.accounts() if any(line.startswith("account = ") for line in limits) else ()
    tables = (*site.partitions(), *accounts, *limits, *site.script())
    known: dict[Sequence[str], Sequence[str]] = {}  # most jobs are like another one
    policy, cells = tuple(site.policy()), tuple(known.setdefault(own, own) for own in map(site.columns(), jobs))
    return SiteScenario(
        site.classes(), tuple(site.machine()), tables, policy, cells, tuple(site.untold()), site.numbers
    )


def ranges_among(numbers: Mapping[str, int], names: Iterable[str]) -> str:
    """Return the numbers of nodes as ranges; KeyError for one without."""
    spans: list[tuple[int, int]] = []
    for number in sorted({numbers[name] for name in names}):
        if spans and sum(spans[-1]) == number:
            spans[-1] = spans[-1][0], spans[-1][1] + 1
        else:
            spans.append((number, 1))
    return ranges_text(spans)


class _Site:
    """A site's facts, and the numbers of its nodes."""

    def __init__(
        self, facts: Facts, jobs: Jobs, name_of: NameOf, user_of: Callable[[str], str], threads_per_core: int
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.facts = facts._replace(associations=self._below_root(facts.associations))
        self.jobs = jobs
        self.name_of, self.user_of = name_of, user_of
        self.threads = threads_per_core
        self.nodes = facts.nodes or ()
        self.numbers = {node.name: number for number, node in enumerate(self.nodes)}
        self.resources = {name for node in self.nodes for name, _ in node.resources}
        self.had: dict[str, dict[str, int]] = {"max_nodes": {}, "max_time_s": {}}  # by partition, the most of a job
        for nodes, (partition, limit_min) in zip(
            each_of(jobs.nodes()), jobs.values("partition", "limit_min"), strict=True
        ):
            for key, value in (("max_nodes", nodes), ("max_time_s", 60 * (limit_min or 0))):
                self.had[key][partition] = max(value, self.had[key].get(partition, 0))

    def _below_root(self, found: tuple[Association, ...] | None) -> tuple[Association, ...] | None:
        """Return associations with the root as the parent of accounts without one."""
        untold = {each.account for each in found or () if not (each.user or each.parent)} - {_ROOT}
        if len(untold) > 1:
            self.counts["accounts without a known parent (sacctmgr show assoc tree): below the root"] = len(untold)
        return (
            None
            if found is None
            else tuple(
                [each._replace(parent=_ROOT) if not each.user and each.account in untold else each for each in found]
            )
        )

    # ------------------------------------------------------------ nodes

    def classes(self) -> tuple[tuple[int, int], ...]:
        return tuple([(count, self.cores(node)) for count, node in _runs(self.nodes)])

    def cores(self, node: Node) -> int:
        """Return the cores of a node, in the unit of the jobs'."""
        return max(1, node.sockets * node.cores * node.threads // self.threads)

    def machine(self) -> Iterator[str]:
        if self.nodes:
            yield "# From scontrol show node, in its order. A preset is sockets x cores x threads of a core."
        for count, node in _runs(self.nodes):
            each = self.cores(node) // node.sockets
            layout = (
                f"{node.sockets}x{each}x1" if each * node.sockets == self.cores(node) else f"1x{self.cores(node)}x1"
            )
            yield from ("", "[[nodes]]", f"count = {count}", f'preset = "{layout}"')
            if node.memory_mb:
                yield f"memory_mb = {node.memory_mb}"
            if node.resources:
                yield f"resources = {_quoted(amounts_text(node.resources))}"

    def ranges(self, names: Iterable[str]) -> str:
        """Return nodes as a scenario numbers them; unknown ones are left out."""
        return ranges_among(self.numbers, (name for name in names if name in self.numbers))

    # ------------------------------------------------------------ what binds jobs

    def partitions(self) -> Iterator[str]:
        if not self.nodes:
            return
        for each in self.facts.partitions or ():
            nodes = self.ranges(each.nodes)
            if not nodes:
                self.counts["partitions without a known node: left out"] += 1
                continue
            yield from ("", "[[partitions]]", f"name = {_quoted(self.name_of('partition', each.name))}")
            if len({*each.nodes} & self.numbers.keys()) < len(self.nodes):
                yield f"nodes = {_quoted(nodes)}"
            for key, most in (("max_nodes", each.max_nodes), ("max_time_s", each.max_time_s)):
                had = self.had[key].get(each.name, 0)
                more = "  # jobs of the log had so much" if most and had > most else ""
                yield from (f"{key} = {max(most, had)}{more}",) if most else ()
            yield from (f"tier = {each.tier}",) if each.tier != 1 else ()
            yield from ("default = true",) if each.default else ()

    def accounts(self) -> Iterator[str]:
        for each in self.facts.associations or ():
            if not each.user and each.parent:
                name, parent = self.name_of("account", each.account), self.name_of("account", each.parent)
                yield from ("", "[[accounts]]", f"name = {_quoted(name)}", f"parent = {_quoted(parent)}")

    def limits(self) -> Iterator[str]:
        config = self.facts.config
        enforced = config.words("AccountingStorageEnforce") if config is not None else frozenset()
        if config is not None and "accountingstorageenforce" in config.values and not enforced & ENFORCED:
            if any(self._all_limits()):
                yield from (
                    "",
                    "# Limits of QOS and associations are left out: AccountingStorageEnforce has no `limits`.",
                )
            return
        for keys, most in self._all_limits():
            lines = [f"{name} = {value}" for name, value in most._asdict().items() if value != UNBOUND]
            if lines:
                yield from ("", "[[limits]]", *[f"{name} = {_quoted(text)}" for name, text in keys.items()], *lines)

    def _all_limits(self) -> Iterator[tuple[Mapping[str, str], Limited]]:
        for of, each in self._of_qos():
            for by, most in (("", each.together), ("user", each.of_user), ("account", each.of_account)):
                if most != NO_LIMIT:
                    yield {**of, **({"each": by} if by else {})}, self._most(most)
        yield from self._of_associations()

    def _most(self, most: Limited) -> Limited:
        return most if most.cpus == UNBOUND else most._replace(cpus=max(1, most.cpus // self.threads))

    def _of_qos(self) -> Iterator[tuple[Mapping[str, str], Qos]]:
        """Yield each QOS with what it binds: jobs that name it, and those of partitions that it is of."""
        by_name = {each.name: each for each in self.facts.qos or ()}
        for each in by_name.values():
            yield {"qos": self.name_of("qos", each.name)}, each
        for partition in self.facts.partitions or ():
            if partition.qos in by_name and self.nodes:
                yield {"partition": self.name_of("partition", partition.name)}, by_name[partition.qos]

    def _of_associations(self) -> Iterator[tuple[Mapping[str, str], Limited]]:
        users: dict[str, list[Association]] = {}
        accounts = [each for each in self.facts.associations or () if not each.user]
        for each in self.facts.associations or ():
            if each.user:
                users.setdefault(each.account, []).append(each)
        logged = {*self.jobs.distinct("account", "user")}
        for account in accounts:
            name = {"account": self.name_of("account", account.account)}
            if account.together != NO_LIMIT:
                yield name, self._most(account.together)
            own = users.get(account.account, [])
            each_jobs = {each.each_jobs for each in own}
            if len(each_jobs) == 1 and each_jobs != {UNBOUND}:
                yield {**name, "each": "user"}, Limited(each_jobs.pop())
                own = [each._replace(each_jobs=UNBOUND) for each in own]
            for each in own:
                if (each.account, each.user) in logged:
                    most = self._most(each.together)._replace(jobs=min(each.each_jobs, each.together.jobs))
                    if most != NO_LIMIT:
                        yield {"user": self.user_of(each.user), **name}, most

    # ------------------------------------------------------------ what takes nodes away

    def script(self) -> Iterator[str]:
        zero_s = int(self.jobs.submit_s[0])
        last_s = int(self.jobs.column("end_s").max())
        if not self.nodes:
            return
        for (begin_s, end_s), names in _together(self.facts.outages or (), last_s).items():
            yield from _act("drain-nodes", begin_s - zero_s, end_s - zero_s, self._some(names))
        for each in self.facts.reservations or ():
            yield from _act("reserve", each.begin_s - zero_s, each.end_s - zero_s, self._some(each.nodes))

    def _some(self, names: Iterable[str]) -> str | None:
        """Return the ranges of some nodes; empty for all of them, None where none of them is known."""
        listed = {*names}
        if "" in listed or self.numbers.keys() <= listed:
            return ""
        return self.ranges(listed) or None

    # ------------------------------------------------------------ the policy

    def policy(self) -> Iterator[str]:
        config = self.facts.config
        if config is None:
            return
        multifactor = config.text("PriorityType") in ("priority/multifactor", "")
        yield (
            'preset = "slurm"  # as scontrol show config says'
            if multifactor
            else 'preset = "easy"  # as scontrol show config says'
        )
        whole = config.text("SelectType") == "select/linear" or (
            bool(self.facts.partitions) and all(each.whole_nodes for each in self.facts.partitions or ())
        )
        yield f'shape = "{"nodes" if whole else "threads"}"'
        if config.text("SchedulerType") == "sched/builtin":
            yield 'backfill = "none"'
        else:
            found = re.search(r"\bbf_max_job_test=([0-9]{1,9})", config.text("SchedulerParameters"))
            yield from ("", "[policy.backfill]", f"depth = {found[1] if found else _USUAL_DEPTH}")
        if multifactor:
            yield from ("", "[policy.order]", *self._order(config))

    def _order(self, config: Record) -> Iterator[str]:
        fair_share = config.number("PriorityWeightFairShare") or 0
        yield f"age = {config.number('PriorityWeightAge') or 0}"
        yield f"fair_share = {fair_share}"
        yield f"size = {config.number('PriorityWeightJobSize') or 0}"
        yield f"max_age_s = {config.seconds('PriorityMaxAge') or 604_800}"
        half_life_s = config.seconds("PriorityDecayHalfLife")
        yield f"half_life_s = {604_800 if half_life_s is None else half_life_s}"
        yield f"period_s = {config.seconds('PriorityCalcPeriod') or 300}"
        if config.text("PriorityFavorSmall").upper() == "YES":
            yield "favor_small = true"
        if fair_share:
            damping = config.number("FairShareDampeningFactor") or 1
            yield from (f"damping = {damping}",) if damping > 1 else ()
            if "no_fair_tree" not in config.words("PriorityFlags"):
                yield "# not modelled: Fair Tree; the classic formula is used"
            shares = ", ".join([f"{_quoted(path)} = {share}" for path, share in self._shares()])
            yield (f"shares = {{ {shares} }}" if shares else "# guessed: equal shares, without sacctmgr show assoc")

    def _shares(self) -> Iterator[tuple[str, int]]:
        """Yield the shares of accounts and users by path; a user in several accounts is in the one with most of its jobs."""
        found = self.facts.associations or ()
        above = {each.account: each.parent for each in found if not each.user}
        count = self.jobs.distinct("user", "account")
        most = dict(sorted(count, key=lambda pair: -count[pair])[::-1])

        def path(account: str) -> list[str]:
            names: list[str] = []
            while account in above and above[account] and account not in names:
                names.append(account)
                account = above[account]
            return names[::-1]

        seen: set[str] = set()
        for each in found:
            names = [self.name_of("account", name) for name in path(each.account)]
            share = 1 if each.share is None else each.share
            if each.share is None:
                self.counts["associations with the shares of their accounts (parent): one share each"] += 1
            if not each.user and names:
                yield "/".join(names), share
            elif each.user and each.user not in seen and most.get(each.user, each.account) == each.account:
                seen.add(each.user)
                yield "/".join([*names, self.user_of(each.user)]), share

    # ------------------------------------------------------------ columns of jobs

    def columns(self) -> Callable[[LoggedJob], Sequence[str]]:
        """Return the cells of a job, but for those before `after`."""
        static = self._static()
        config = self.facts.config
        memory = config is None or "memory" in config.text("SelectTypeParameters").lower()
        if not memory:
            self.counts["jobs asked for memory, which this site does not count (SelectTypeParameters)"] = len(self.jobs)

        def cells(job: LoggedJob) -> Sequence[str]:
            row, bound = job.row, job.bound
            processes = max(1, job.nodes, -(-job.cpus // self.threads))
            memory_mb = memory_of(row) // processes if memory else 0
            return (
                _number(static(job)),
                _number(memory_mb),
                ";".join([self.name_of("partition", name) for name in row.partition.split(",") if name]),
                self.name_of("qos", row.qos) if row.qos else "",
                self.name_of("account", row.account) if row.account else "",
                amounts_text(self._resources_of(job)),
                "",  # numbers of jobs are the log's
                _number(bound.begin_s),
                "" if bound.cancel_s is None else str(bound.cancel_s),
                _number(bound.array),
                _number(bound.at_once),
            )

        return cells

    def _static(self) -> Callable[[LoggedJob], int]:
        """Return the function that gives the part of a job's priority that never changes."""
        config = self.facts.config
        if config is None:
            return lambda _: 0
        weights = [config.number(f"PriorityWeight{name}") or 0 for name in ("QOS", "Partition")]
        qos = {each.name: each.priority for each in self.facts.qos or ()}
        factors = {each.name: each.job_factor for each in self.facts.partitions or ()}
        parts = [
            {name: weight * value // max(1, *of.values()) for name, value in of.items()} if of else {}
            for weight, of in zip(weights, (qos, factors), strict=True)
        ]

        def priority(job: LoggedJob) -> int:
            row = job.row
            nice = _NICE.search(row.command)
            less = int(nice[1] or _USUAL_NICE) if nice else 0
            total = parts[0].get(row.qos, 0) + parts[1].get(row.partition.partition(",")[0], 0) - less
            return min(max(total, -MOST_PRIORITY), MOST_PRIORITY)

        return priority

    def _resources_of(self, job: LoggedJob) -> list[tuple[str, int]]:
        """Return what a job takes of each of its nodes, by the names that nodes have."""
        row = job.row
        asked = {name: number for name, number in row.requested.items() if name.startswith("gres/") and number}
        found = asked or {name: number for name, number in row.allocated.items() if name.startswith("gres/") and number}
        each: dict[str, int] = {}
        for full, number in found.items():
            name = full.removeprefix("gres/")
            kind = name.partition(":")[0]
            if ":" not in name and any(other.startswith(f"gres/{kind}:") for other in found):
                continue  # of all types together
            if name not in self.resources:
                name = kind if kind in self.resources else name
            if name in self.resources or (
                ":" not in name and any(one.startswith(f"{name}:") for one in self.resources)
            ):
                each[name] = max(each.get(name, 0), -(-number // max(1, job.nodes)))
            else:
                self.counts[f"jobs had {kind}, which no node is known to have"] += 1
        return list(each.items())

    # ------------------------------------------------------------ what is not there

    def untold(self) -> Iterator[str]:
        """Yield what a scenario does not have of the facts."""
        facts = self.facts
        others = Counter(name for each in facts.qos or () for name in each.others)
        others.update(name for each in facts.associations or () for name in each.others)
        yield from (f"limits {name} of {count} QOS or associations" for name, count in others.items())
        if facts.config is not None:
            yield from (told for key, told in _ALSO if facts.config.text(key))
            parameters = facts.config.text("SchedulerParameters").split(",")
            yield from (word for word in parameters if word.partition("=")[0] in _ALSO_OF_BACKFILL)
            if (facts.config.number("PriorityWeightAssoc") or 0) > 0:
                yield "priorities of associations"
            if facts.config.text("PreemptType") not in ("", "preempt/none"):
                yield "preemption of jobs by others (PreemptType)"
        down = sum(not node.up for node in self.nodes)
        if down:
            yield f"{down} nodes are out of service at present, but not in the run: only outages (sacctmgr show event) take nodes out"
        reserved = facts.reservations or ()
        if count := sum(not _AGAIN.isdisjoint(each.flags) for each in reserved):
            yield f"{count} reservations that recur: one time of each is in the run"
        if count := sum(each.cores for each in reserved):
            yield f"{count} reservations of some cores: their whole nodes are reserved"
        used = int(self.jobs.of("reservation", lambda name: name not in ("", "(null)")).sum())
        if used:
            yield f"{used} jobs ran in reservations: they start after these, or elsewhere"
        if not self.nodes and (facts.partitions or facts.reservations or facts.outages):
            yield "partitions, reservations and outages: without scontrol show node it is not known which nodes they have"
        yield from (f"{count} {text}" for text, count in self.counts.items())


def _runs(nodes: Sequence[Node]) -> list[tuple[int, Node]]:
    """Return neighbouring nodes that are alike, as (how many, the first of them)."""
    found: list[tuple[int, Node]] = []
    for node in nodes:
        if found and found[-1][1][1:-1] == node[1:-1]:  # but for name and state
            found[-1] = found[-1][0] + 1, found[-1][1]
        else:
            found.append((1, node))
    return found


def _together(outages: Iterable[Outage], last_s: int) -> Mapping[tuple[int, int], list[str]]:
    """Return the nodes that are out together, by (begin, end)."""
    found: dict[tuple[int, int], list[str]] = {}
    for each in outages:
        if _OUT.search(each.state):  # a cluster that registers itself is an event, too
            found.setdefault((each.begin_s, last_s + 1 if each.end_s is None else each.end_s), []).append(each.node)
    return dict(sorted(found.items()))


def _act(do: str, begin_s: int, end_s: int, nodes: str | None) -> Iterator[str]:
    """Yield a table of the script, with times since the first submission; nothing where it has ended before."""
    if nodes is not None and end_s > max(0, begin_s):
        yield from ("", "[[script]]", f"at_s = {max(0, begin_s)}", f'do = "{do}"')
        yield from (f"nodes = {_quoted(nodes)}",) if nodes else ()
        yield f"until_s = {end_s}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _number(value: int) -> str:
    return str(value) if value else ""
