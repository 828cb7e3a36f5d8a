"""The facts about one job (`explain`) as sentences.

Instants are seconds on the run's clock, as in the run folder, followed by h:mm:ss, from a day on
3 d h:mm:ss; spans are the same, or seconds below a minute.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from cosched_emulator.explain.gang_facts import (
    count_text,
    counts_text,
    instant_text,
    jobs_text,
    ordinal_text,
    quantum_sentences,
    resource_sentences,
    row_events,
    row_placement,
    span_text,
    times_text,
    turns_of_row,
)
from cosched_hwmodel.units import MARK, amounts_text

Facts = Mapping[str, Any]

# The reason why a constraint rejects a candidate partner.
_AGAINST: Final[Mapping[str, str]] = {
    "short": "it was too short, not known, or not willing to share",
    "size": "it was larger than the job that started",
    "memory": "it did not fit into memory beside the job that started",
    "type": "the two would have competed for the same resource",
    "slowdown": "the two would have slowed each other down too much",
}
_MATCHABLE: Final = "of medium length or longer, known and willing to share"
# The candidates left after a constraint, for a partner and for a host.
_LEFT: Final[Mapping[str, tuple[str, str]]] = {
    "short": (_MATCHABLE, _MATCHABLE),
    "size": ("not larger", "not smaller"),
    "memory": ("with room in memory for both", "with room in memory for both"),
    "type": ("of a matching type", "of a matching type"),
    "slowdown": ("within the largest slowdown", "within the largest slowdown"),
}
_NO_SEARCH: Final[Mapping[str, str]] = {
    "nobody-waits": "no other job was pending",
    "no-belief": "no slowdowns of pairs are known",
    "may-not-share": (
        "jobs that are short, exclusive or of unknown use, or that take more than half of a node, get none"
    ),
    "weak-load": "the pending jobs requested little more than the free nodes",
    "short": "it was too short for a partner to pay off",
    "low-load": "there was room for all jobs with one process on a node, so it got a node for each process",
}


def sentences(facts: Facts) -> Iterator[str]:
    """Yield the explanation of a job, line by line."""
    starts = facts["starts"]
    for number, start in enumerate(starts, 1):
        if len(starts) > 1:
            yield f"Start {number} of {len(starts)}:"
        yield _submission(facts["job"], start, facts["terms"])
        yield from _waiting(start)
        yield from _cause(facts["job"], start)
        yield from _placement(start)
        yield from row_placement(start)
        yield from _later_events(start)
        yield from turns_of_row(start)
    if facts["rejected"] is not None:
        yield f"Then {rejected_text(facts['rejected'])}."
    if facts.get("quantum") is not None:
        yield from quantum_sentences(facts["quantum"], facts["job"])


def reason(job: int, start: Facts) -> str:
    """Return why a job started when it did, as far as `explain_starts` tells it: one paragraph."""
    return " ".join([*_waiting(start), *_cause(job, start)])


def rejected_text(rejected: Facts) -> str:
    """Return when a job was rejected, and why: ``it was rejected at 5 s: 'too large'``."""
    return f"it was rejected at {instant_text(rejected['at_us'])}: {rejected['reason']!r}"


def asks_text(asks: Facts, terms: Mapping[str, str]) -> Iterator[str]:
    """Yield what a job asks for besides threads: of a start, and by the terms of its run (`read_facts`)."""
    if "memory_mb" in asks:
        yield f"{asks['memory_mb']} MiB each"
    for name, where in (("resources", " on each node"), ("licences", "")):
        amounts = amounts_text(asks[name].items()) if name in asks else terms.get(name)
        if amounts:
            yield f"{amounts}{where}"
    if "partition" in terms:
        yield f"partition {terms['partition']}"
    if "nodes" in asks:
        yield f"only {_nodes(asks['nodes'])}"
    if "apart" in asks:
        others = [
            f"{name.removeprefix(MARK)}{f', then on {_nodes(nodes)}' if nodes else ''}"
            for name, nodes in asks["apart"].items()
        ]
        yield f"never beside {'; '.join(others)}"


def _submission(job: int, start: Facts, terms: Mapping[str, str]) -> str:
    size = count_text(start["processes"], "process", "processes")
    asks = ", ".join([size, *asks_text(start["asks"] or {}, terms)])
    at = f"was submitted at {instant_text(start['submit_us'])}"
    waited = "at once" if not start["waited_us"] else f"{span_text(start['waited_us'])} later"
    when = f"started {waited}" + (f", at {instant_text(start['at_us'])}" if start["waited_us"] else "")
    return f"Job {job} ({asks}, estimated {span_text(start['estimate_us'])}) {at} and {when}."


def _waiting(start: Facts) -> Iterator[str]:
    """Yield the known facts about the job while it was pending."""
    submit_us = start["submit_us"]
    if start["expected_response_us"] is not None:
        yield f"At its submission it was expected to end within {span_text(start['expected_response_us'])}."
    for spell in start["head"]:
        first, last = spell["first_shadow_us"], spell["last_shadow_us"]
        expected = f"its start was expected at {instant_text(first)}"
        if last != first:
            expected = f"its start was first expected at {instant_text(first)}, last at {instant_text(last)}"
        since, held_us = spell["from_us"] - submit_us, spell["until_us"] - spell["from_us"]
        head = f"it was the reserved head of the queue, for {span_text(held_us)}"
        yield f"From {span_text(since)} after its submission {head}: {expected}."
    for wait in start["waits"]:
        yield f"{span_text(wait['at_us'] - submit_us)} after its submission the policy gave the reason {wait['reason']!r}."
    if start["overtaken_by"]:
        yield f"{count_text(start['overtaken_by'], 'job that was', 'jobs that were')} submitted later started before it."
    yield from _promises(start["promises"], submit_us)
    looked = start["looked_at"]
    if looked["times"]:
        parts = [
            f"{times_text(count)} {_AGAINST.get(name, name)}{counts_text(looked['slowed_by']) if name == 'slowdown' else ''}"
            for name, count in looked["removed_by"].items()
            if count
        ]
        for key, text in (
            ("without_profit", "it would have been no gain"),
            ("another_taken", "another was taken"),
            ("not_admitted", "it found no place there, or would have delayed the reserved job"),
        ):
            if looked[key]:
                parts.append(f"{times_text(looked[key])} {text}")
        jobs = count_text(looked["times"], "starting job")
        yield f"While it was pending, {jobs} considered it as a partner and did not take it: {', '.join(parts)}."


def _promises(promises: Sequence[Facts], submit_us: int) -> Iterator[str]:
    """Yield the first promise to the job, how often it got a later one, and how often none, as too few nodes were in service."""
    pairs = [
        (before["start_us"], after["start_us"])
        for before, after in pairwise(promises)
        if before["start_us"] is not None
    ]
    postponed = sum(after is not None for _, after in pairs)
    changes = (("postponed", postponed), ("withdrawn", len(pairs) - postponed))
    changed = " and ".join([f"{what} {times_text(count)}" for what, count in changes if count])
    none = [each for each in promises[:1] if each["start_us"] is None]
    for each in (*none, *[each for each in promises if each["start_us"] is not None][:1]):
        said = "no start could be promised"
        if each["start_us"] is not None:
            said = f"it was promised a start at {instant_text(each['start_us'])}{f', which was {changed}' if changed else ''}"
        after_us = each["at_us"] - submit_us
        when = f"{span_text(after_us)} after its submission" if after_us else "At its submission"
        yield f"{when} {said}."


def _cause(job: int, start: Facts) -> Iterator[str]:
    """Yield why the job started when it did."""
    together, host = start["together"], start["host"]
    if start["group"] is not None:
        yield from _group_cause(job, start)
        return
    queue = "" if start["waiting"] is None else f" of {count_text(start['waiting'], 'pending job', 'pending jobs')}"
    if start["chosen_by"] is not None:
        yield f"It started because job {start['chosen_by']}, which started then, took it as its partner."
        if start["chosen_in"] is not None:
            yield f"Job {start['chosen_by']} examined {_search(start['chosen_in'], 'partner')}."
    elif host is not None and host in (together or ()):
        yield f"It started because job {host}, which started then, was its neighbour in the queue."
    elif host is not None:
        yield f"It started because it could join job {host}, which was already running, on its nodes{_before(start)}."
        if start["host_search"] is not None:
            yield f"It examined {_search(start['host_search'], 'host')}."
    else:
        yield f"It started because {_reason(start, queue)}."
        yield from _halves_cause(start)
        if start["beside"]:
            later = [f"job {each['job']} to end {span_text(each['later_us'])} later" for each in start["beside"]]
            others = jobs_text([each["job"] for each in start["beside"]])
            yield f"Beside {others} it was expected to take {start['slowdown']:.3f} of its run time, {' and '.join(later)}."
        if start["stopped"]:
            yield _stopped(start["stopped"])
        if start["partner_search"] is not None:
            yield f"For a partner it examined {_search(start['partner_search'], 'partner')}."
        elif start["no_search"] is not None:
            yield f"It looked for no partner: {_NO_SEARCH.get(start['no_search'], start['no_search'])}."
        if start["unfair_to"] is not None:
            group = "A group for it was"
            if (start["refused_groups"] or 0) > 1:
                group = f"{start['refused_groups']} groups for it were"
            yield f"{group} given up, because {_unfair_job(job, start)} would have ended too late."


def _halves_cause(start: Facts) -> Iterator[str]:
    """Yield why the job has all cores of its nodes or half of them, and why beside which jobs."""
    halves = start["halves"]
    if start["gain"] is not None:
        what = "all cores of its nodes" if halves is None else "half of the cores of its nodes"
        compared = count_text(
            start["compared"], "pending job that had a place", "kinds of pending jobs that had a place"
        )
        yield f"With {what} it adds work worth {start['gain']:.3f} nodes for each half that it takes; compared: {compared}."
    if halves is not None:
        alone = "" if halves["beside"] else ", with no job beside it yet"
        yield f"There it was expected to take {halves['ratio']:.3f} of its run time on all cores{alone}."
        for each in halves["beside"]:
            yield (
                f"Beside job {each['job']} it takes {each['ratio']:.3f} of its run time on all cores,"
                f" and job {each['job']} beside it {each['its_ratio']:.3f}."
            )


def _group_cause(job: int, start: Facts) -> Iterator[str]:
    """Yield why the job started in a group."""
    group = start["group"]
    others = [other for other in group["matched"] if other != job]
    if group["role"] == "primary":
        state = "already running" if group["case"] == 2 else "also pending"
        yield f"It started as the primary job of a group, with {jobs_text(others)}, {state} (Case {group['case']}){_before(start)}."
    else:
        state = (
            "which was already running, had room for it"
            if group["case"] == 3
            else "which started then, took it into its group"
        )
        besides = f", with {jobs_text(others)}" if others else ""
        yield (
            f"It started because job {group['primary']}, {state}{besides}: "
            f"they are a group, with that job as the primary one (Case {group['case']}){_before(start)}."
        )
    which = "the first" if group["tried"] == 1 else f"the {ordinal_text(group['tried'])}"
    late = (
        "" if start["unfair_to"] is None else f"; with another one {_unfair_job(job, start)} would have ended too late"
    )
    candidates = count_text(group["candidates"], "candidate matches", "candidates match")
    yield (
        f"{candidates} the primary job; this is {which} group that was tried, "
        f"with a utilisation gain of {group['gain']:.3f}{late}."
    )


def _unfair_job(job: int, start: Facts) -> str:
    return "it" if start["unfair_to"] == job else f"job {start['unfair_to']}"


def _reason(start: Facts, queue: str) -> str:
    free = (
        "" if start["free_threads"] is None else f" ({count_text(start['free_threads'], 'hardware thread')} open to it)"
    )
    match start["reason"]:
        case "order":
            first = "the only pending job" if start["waiting"] == 1 else f"the first{queue}"
            return f"it was {first}, and there was a place for it{free}"
        case "overtake":
            return (
                f"it was the first in the queue that the nodes in service can hold, and there was a place for it{free}"
            )
        case "skip":
            return f"there was a place for it{free}, and none for one or more of those ahead of it in the queue"
        case "backfill":
            before = _before(start) or " before those ahead of it in the queue"
            return f"there was a place for it{free}: it was backfilled{before}"
        case "promise":
            early_us = start["promised_us"] - start["at_us"] if start["promised_us"] is not None else 0
            if early_us > 1:  # one microsecond means: as soon as its slice begins
                return f"there was a place for it {span_text(early_us)} before its promised start"
            return "its promised start had come"
        case "recorded":
            return "its recorded start had come"
        case "company":
            return "it could share nodes before its promised start"
        case None:
            return "the policy chose it, without a reason"
        case other:
            return f"the policy chose it, with the reason {other!r}"


def _before(start: Facts) -> str:
    before = start.get("before")
    if before is None:
        return ""
    return f" before the reserved job {before['job']}, whose start at {instant_text(before['shadow_us'])} it does not delay"


def _placement(start: Facts) -> Iterator[str]:
    """Yield where the job runs, beside which jobs, and how long that should take."""
    groups = []
    for place in start["places"]:
        word = "thread" if place["threads"].isdecimal() else "threads"
        processes = count_text(place["processes_per_node"], "process", "processes")
        groups.append(f"{_nodes(place['nodes'])} (hardware {word} {_list(place['threads'])}, {processes} a node)")
    partner = start["together"] or ([start["host"]] if start["host"] is not None else [])
    group = start["group"]
    if group is not None:  # matched jobs share nodes with the primary job, not with each other
        partner = group["matched"] if group["role"] == "primary" else [group["primary"]]
    beside = f", beside {jobs_text(partner)}" if partner else ""
    yield f"It runs on {' and '.join(groups)}{beside}."
    for each in start["corrected"] or ():
        said = "nothing" if each["told"] is None else f"{each['told']:.3f}"
        yield f"Beside job {each['job']} the site states {said}; the scheduler used {each['slowdown']:.3f}, corrected by measurements."
    factor = start["factor"]
    if factor is None:
        factor = start["expected_us"] / start["estimate_us"] if start["estimate_us"] else 1.0
    if start["beside"]:
        pass  # told with what it costs the others
    elif start["slowdown"] == 1.0 and factor == 1.0:
        yield "Neither job is expected to slow the other down."
        start = {**start, "resource": None}
    elif start["slowdown"] is not None:
        yield (
            f"While both run, each is expected to take {start['slowdown']:.3f} times as long as alone: "
            f"{span_text(start['expected_us'])} in all instead of {span_text(start['estimate_us'])}."
        )
    elif factor > 1.0:
        expected = span_text(round(start["estimate_us"] * factor))
        yield f"It is expected to take {factor:.3f} times as long there as estimated: {expected}."
    elif start["factor"] is not None:
        yield "Its neighbours there are not expected to slow it down."
    yield from resource_sentences(start)


def _stopped(stopped: list[Facts]) -> str:
    """Return which jobs were suspended for the job."""
    there = [each["job"] for each in stopped if not each["to_disk"]]
    away = [each["job"] for each in stopped if each["to_disk"]]
    places = [f"{jobs_text(jobs)} {where}" for jobs, where in ((there, "in place"), (away, "to disk")) if jobs]
    return f"It suspended {' and '.join(places)}."


def _later_events(start: Facts) -> Iterator[str]:
    """Yield what happened to it in order of time, and the preemptions in one sentence."""
    events = [*_joins(start), *_suspensions(start), *row_events(start)]
    for _, text in sorted(events, key=lambda event: event[0]):
        yield text
    preempted = start["preempted"]
    if preempted["times"]:
        since_us = preempted["on_disk_since_us"]
        stays = "" if since_us is None else f"; since {instant_text(since_us)} it has not come back"
        yield f"It was preempted {times_text(preempted['times'])}, for {span_text(preempted['for_us'])} on disk in all{stays}."


def _joins(start: Facts) -> Iterator[tuple[int, str]]:
    """Yield when other jobs joined it, with a sentence for each."""
    for event in start["joined_by"]:
        slow = "" if event["slowdown"] is None else f", slowdown {event['slowdown']:.3f} while both run"
        yield event["at_us"], f"{_after(start, event)} job {event['job']} joined it on its nodes{slow}."


def _suspensions(start: Facts) -> Iterator[tuple[int, str]]:
    """Yield when it was suspended on its nodes, with a sentence for each time."""
    for event in start["suspended"]:
        measured, until_us = event["measured_slowdown"], event["until_us"]
        beside = "" if event["partner"] is None else f"beside job {event['partner']} "
        for_whom = "" if event["partner"] is None else f" for job {event['partner']}"
        why = for_whom if measured is None else f" because {beside}it took {measured:.3f} times as long as alone"
        end = (
            "it was not resumed" if until_us is None else f"it was resumed {span_text(until_us - event['at_us'])} later"
        )
        yield event["at_us"], f"{_after(start, event)} it was suspended{why}; {end}."


def _after(start: Facts, event: Facts) -> str:
    return f"{span_text(event['at_us'] - start['at_us'])} after its start"


def _search(search: Facts, role: str) -> str:
    """Return how many jobs a search examined, how many each constraint left, and which it chose."""
    left = search["left"]
    kind = ("other pending job", "other pending jobs") if role == "partner" else ("running job", "running jobs")
    steps = []
    for name, count in left.items():
        if name != "all":
            too_slow = counts_text(search["slowed_by"]) if name == "slowdown" else ""
            steps.append(
                f"{count} {_LEFT[name][role == 'host'] if name in _LEFT else name}{too_slow and ', others not'}{too_slow}"
            )
            if not count:
                break
    text = f"{count_text(left['all'], *kind)}: {', '.join(steps)}"
    if search["taken"] is None:
        if not search["candidates"]:
            return text
        if search["with_profit"] == 0:
            return f"{text}; none of these promised a profit"
        return f"{text}; none of these found a place without a delay for the reserved job"
    place = f"the {ordinal_text(search['position'])} of {search['candidates']} candidates"
    if search["candidates"] == 1:
        place = "the only candidate"
    chosen = f"{text}; it took job {search['taken']}, {place}"
    if search["profit_rank"] is None:
        return chosen
    profit = "" if search["profit"] is None else f" of {search['profit']:.4g}"
    if search["candidates"] == 1:
        return f"{chosen}, with a profit{profit}"
    best = "highest" if search["profit_rank"] == 1 else f"{ordinal_text(search['profit_rank'])} highest"
    refused = (
        ""
        if search["profit_rank"] == 1
        else " (those with more found no place, or would have delayed the reserved job)"
    )
    return f"{chosen}, with the {best} profit{profit}{refused}"


def _nodes(text: str) -> str:
    return f"node {text}" if text.isdecimal() else f"nodes {_list(text)}"


def _list(text: str) -> str:
    return text.replace(" ", ", ")
