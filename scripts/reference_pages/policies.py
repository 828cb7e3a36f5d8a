"""The pages about policies: parts with their settings, presets, what goes with what, and prices of a budget."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from scripts.tables import NOTHING

from cosched_emulator.explain.facts import EXPLAINED
from cosched_plugin.core.work import Price
from cosched_plugin.parts import prices
from cosched_plugin.parts.needs import MEANING, OF_SITE
from cosched_plugin.policies.composition.catalogue import KINDS, needs_and_provisions, own_notes
from cosched_plugin.policies.composition.part_settings import REQUIRED
from cosched_plugin.policies.composition.presets import ALIASES, PRESETS
from cosched_plugin.policies.composition.resolved import name_of, resolve

# Records of a trace and their fields, by table of the page.
TRACE: Final[Mapping[str, list[dict[str, Any]]]] = tomllib.loads(
    Path(__file__).with_name("trace_records.toml").read_text(encoding="utf-8")
)


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """Yield the lines of a Markdown table, and an empty one."""
    names = list(header)
    yield f"| {' | '.join(names)} |"
    yield "|" + "---|" * len(names)
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"
    yield ""


def code(text: object) -> str:
    """Return a text as code, or the sign for nothing."""
    return f"`{text}`" if text not in ("", None) else NOTHING


def policies_page() -> Iterator[str]:
    """Yield parts, presets and what goes with what."""
    yield "# Parts and presets of policies"
    yield ""
    yield "[Policies](../policies.md) says what they do; `cosched-plugin policies` prints the same in a terminal."
    yield ""
    yield from ("## Presets", "")
    shown = [kind for kind in KINDS if kind != "budget"]
    yield from table(
        ("preset", *shown, "what it is", "described in"),
        (
            (
                code(name),
                *(name_of(kind, resolve({"preset": name})) for kind in shown),
                preset.text,
                preset.source or NOTHING,
            )
            for name, preset in PRESETS.items()
        ),
    )
    yield from table(("other name", "preset"), ((code(alias), code(name)) for alias, name in ALIASES.items()))
    yield from ("## Settings that a preset changes", "")
    yield from table(("preset", "setting", "value"), _changed())
    yield from _parts()
    yield from ("## Keys of notes", "")
    yield ", ".join(map(code, sorted(own_notes())))
    yield ""
    yield from ("## Prices of a budget", "")
    yield from table(("price", "units of work", "for"), _prices())


def _parts() -> Iterator[str]:
    """Yield the parts of each kind with their settings, and what goes with what."""
    for kind, entries in KINDS.items():
        yield from (f"## {kind}", "")
        yield from table(("part", "what it does"), ((code(name), entry.text) for name, entry in entries.items()))
        rows = [
            (code(name), code(key), _shown(entry.default(key)), item.expected, item.text)
            for name, entry in entries.items()
            for key, item in entry.parameters.items()
        ]
        if rows:
            yield from table(("part", "setting", "default", "accepts", "meaning"), rows)
    yield from ("## What parts need of each other, and provide", "")
    yield "With their default settings. Parts that are not in the table need nothing and provide nothing."
    yield ""
    yield from table(
        ("part", "needs", "provides"),
        (
            (f"{kind} `{name}`", ", ".join(sorted(needs)) or NOTHING, ", ".join(sorted(provides)) or NOTHING)
            for (kind, name), (needs, provides) in needs_and_provisions().items()
            if needs or provides
        ),
    )
    yield from table(
        ("word", "meaning", "from"),
        ((word, text, "the site" if word in OF_SITE else "a part") for word, text in MEANING.items()),
    )


def _shown(value: object) -> str:
    return "required" if value is REQUIRED else f"`{json.dumps(value)}`"


def _changed() -> Iterator[tuple[str, str, str]]:
    for name in PRESETS:
        for kind, part in resolve({"preset": name}).items():
            entry = KINDS[kind][part["name"]]
            for key, value in part.items():
                if key != "name" and value != entry.default(key):
                    yield code(name), code(f"{kind}.{key}"), _shown(value)


def _prices() -> Iterator[tuple[str, str, str]]:
    for name, price in vars(prices).items():
        if isinstance(price, Price):
            rates = [
                f"{rate.units} {'*' if rate.per == 1 else f'for every {rate.per}'} {rate.of}" for rate in price.rates
            ]
            yield code(name), " + ".join([str(price.fixed)] * bool(price.fixed) + rates), price.meaning


def trace_page() -> Iterator[str]:
    """Yield the records of a decision trace and the facts that `explain` makes of them."""
    yield "# Records of a decision trace"
    yield ""
    yield "[The decision trace](../trace.md) explains them. Every record has `at_us`, when it was decided, and `kind`."
    yield ""
    yield from table(
        ("kind", "told when", "fields"),
        ((code(kind["name"]), kind["told_when"], kind["fields"]) for kind in TRACE["kinds"]),
    )
    for title, head, name in (
        ("Fields of a `start`", ("field", "is", "told by"), "start"),
        ("Its `group`", ("field", "is"), "group"),
        ("Its searches, `partners` and `hosts`", ("field", "is"), "search"),
    ):
        yield from (f"## {title}", "")
        rows = (
            (", ".join(map(code, item["names"])), item["meaning"], item.get("told_by", "always"))[: len(head)]
            for item in TRACE[name]
        )
        yield from table(head, rows)
    yield from ("## Facts of a start", "")
    yield "What `explain --json` gives. Times are microseconds; what a policy did not tell is null."
    yield ""
    yield from table(("field of a start", "is"), ((code(name), meaning) for name, meaning in EXPLAINED.items()))


PAGES: Final[Mapping[str, Callable[[], Iterable[str]]]] = {"policies.md": policies_page, "trace.md": trace_page}
