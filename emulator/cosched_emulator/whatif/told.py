"""What a site has told of itself: its name, which kinds of facts are missing, and whether its present policy is assumed.

Of an imported log the import says what it was given; a scenario that somebody wrote may say the same in its sections.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from cosched_emulator.whatif.question import Question
from cosched_emulator.workload.sacct.sacct_log import facts_of_log, site_of_log
from cosched_emulator.workload.sacct.site_facts import Facts

_COMMON: Final = ("trace", "log", "jobs")  # names of logs that say nothing of a site
_OUTAGES: Final = {"drain-nodes", "fail-node"}


def site_name(log: str) -> str:
    """Return the name of the site: the cluster's, else the log's, or its folder's where logs are all named alike."""
    file = Path(log)
    name = file.name.removesuffix(".gz").removesuffix(".swf")
    names = (site_of_log(log), name, *(part.name for part in file.absolute().parents))
    return next((each for each in names if each and each not in _COMMON), name)


def missing_facts(question: Question) -> tuple[str, ...]:
    """Return the kinds of facts, as the fields of `Facts`, that neither the import of the log was given nor the scenario says."""
    given = facts_of_log(str(question.site["workload"]["swf"]))
    said = _said(question, guessed=given is not None)
    return tuple(name for name in Facts._fields if name not in (given or ()) and not said[name])


def _said(question: Question, *, guessed: bool) -> Mapping[str, object]:
    """Return by each kind of facts whether the scenario says it; an import names nodes that it has ``guessed``."""
    site = question.site
    does = {entry["do"] for entry in site.get("script") or ()}
    return {
        "config": not is_assumed(question),
        "partitions": site.get("partitions"),
        "nodes": question.names_machine and not guessed,
        "reservations": "reserve" in does,
        "qos": site.get("limits"),
        "associations": site.get("accounts"),
        "outages": does & _OUTAGES,
    }


def is_assumed(question: Question) -> bool:
    """Tell whether nobody said what the present policy is: an import without the site's configuration guesses EASY."""
    if question.asked or question.policy is None:
        return not question.asked
    facts = facts_of_log(str(question.site["workload"]["swf"]))
    guessed = isinstance(question.policy, Mapping) and question.policy.get("preset") == "easy"
    return guessed and facts is not None and "config" not in facts


def baseline_name(question: Question) -> str:
    """Return what the present policy is called."""
    return f"assumed: {question.present.name.upper()}" if is_assumed(question) else question.present.name
