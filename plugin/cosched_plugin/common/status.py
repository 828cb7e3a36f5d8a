"""What a running program tells of itself: counters and times of decisions, as JSON and as a page for Prometheus."""

from __future__ import annotations

import math
import re
import resource
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, TypeAlias, get_type_hints

from cosched_hwmodel.units import SECOND_US
from cosched_terminal.tables import align

# The status of a process: counters, latencies of its answers, and further fields. Both programs use it.
#
# One thread counts and another one may read, so the values of one reading may differ slightly in time.

Value: TypeAlias = "str | int | float | bool | None"

LATENCIES: Final = 1_000  # number of latest values that are kept
QUANTILES: Final = ((0.5, "p50"), (0.9, "p90"), (0.99, "p99"))
NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")  # of a metric or a label; colons are reserved for recording rules
PAGE_BYTES: Final = resource.getpagesize()


class Gauge(NamedTuple):
    """The meaning of a numeric field; its name ends with a unit, as is usual for Prometheus.

    The key of a field within others is a path: ``pools.*.used`` is that of each of the ``pools``, whose names are the values of the
    label that ``labels`` has for the ``*``. What has no bounded number of names must not be a label.
    """

    name: str
    help: str
    labels: tuple[str, ...] = ()


QUEUE_GAUGES: Final[Mapping[str, Gauge]] = {
    "queue_length": Gauge("queue_length", "Pending jobs that may be started."),
    "running_jobs": Gauge("running_jobs", "Jobs that hold nodes or are on disk."),
}


class Counters:
    """What a process counts; each is a field of its status, and a counter of Prometheus by the name that its annotation gives."""

    batches: Annotated[int, Gauge("batches_total", "Batches answered.")] = 0
    refused: Annotated[int, Gauge("refused_actions_total", "Actions that the manager refused.")] = 0
    resyncs: Annotated[int, Gauge("resyncs_total", "Number of times that a scheduler took over the state again.")] = 0
    errors: Annotated[int, Gauge("errors_total", "Errors in messages of either side.")] = 0


COUNTERS: Final[Mapping[str, Gauge]] = {
    name: hint.__metadata__[0] for name, hint in get_type_hints(Counters, include_extras=True).items()
}


class Status(Counters):
    """Counters, the last 1,000 latencies, and ``fields``, which returns further values on each request.

    ``gauges`` says which fields are numbers that go up and down. ``fields`` is called by the thread that reads. The counters are
    plain attributes.
    """

    def __init__(
        self,
        fields: Callable[[], Mapping[str, Any]] = dict,
        gauges: Mapping[str, Gauge] | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fields = fields
        self._gauges = {} if gauges is None else gauges
        self._clock = clock
        self._started_s = clock()
        self._latencies_s = [0.0] * LATENCIES
        self._sum_s = 0.0

    def count_answer(self, latency_s: float) -> None:
        """Count an answered batch and its latency."""
        self._latencies_s[self.batches % LATENCIES] = latency_s
        self._sum_s += latency_s
        self.batches += 1

    def latencies_s(self) -> dict[str, float | None]:
        """Return the percentiles (nearest rank) and the maximum of the last 1,000 latencies; None before the first."""
        count = min(self.batches, LATENCIES)
        times_s = sorted(self._latencies_s[:count])
        found: dict[str, float | None] = {
            name: times_s[math.ceil(share * count) - 1] if count else None for share, name in QUANTILES
        }
        found["max"] = times_s[-1] if count else None
        return found

    def as_dict(self) -> dict[str, Any]:
        """Return the whole status as plain values; the fields come first."""
        return {
            **self._fields(),
            "uptime_s": round(self._clock() - self._started_s, 3),
            **{name: getattr(self, name) for name in COUNTERS},
            "latency_s": self.latencies_s(),
            "resident_bytes": resident_bytes(),
        }

    def prometheus(self, prefix: str, labels: Mapping[str, str] | None = None) -> str:
        """Return the status in Prometheus' text exposition format 0.0.4, with names that begin with ``prefix``.

        Fields that are texts are labels of one metric, ``prefix_info``; microseconds become seconds, Prometheus' unit. ValueError for
        a name that Prometheus would not take.
        """
        fields = self._fields()
        page = _Page(prefix, {} if labels is None else labels)
        texts = {key: value for key, value in fields.items() if isinstance(value, str)}
        page.add("info", "gauge", "Fields of the status that are texts, as labels.", 1, texts)
        page.add("uptime_seconds", "gauge", "Time since the process started to serve.", self._clock() - self._started_s)
        for name, counter in COUNTERS.items():
            page.add(counter.name, "counter", counter.help, getattr(self, name))
        latencies_s = self.latencies_s()
        page.summary(
            "decision_seconds",
            f"Time to answer a batch; quantiles of the last {LATENCIES}.",
            {share: latencies_s[name] for share, name in QUANTILES},
            self._sum_s,
            self.batches,
        )
        most = f"Longest time to answer a batch, of the last {LATENCIES}."
        page.add("decision_max_seconds", "gauge", most, latencies_s["max"])
        page.add("resident_memory_bytes", "gauge", "Resident memory.", resident_bytes())
        for key, gauge in self._gauges.items():
            found = dict(_found(fields, key.split(".")))
            if key.endswith("_us"):
                found = {names: None if value is None else value / SECOND_US for names, value in found.items()}
            if found:
                page.add_each(gauge, found)
        return page.text()


def _found(value: Any, path: Sequence[str]) -> Iterator[tuple[tuple[str, ...], float | None]]:
    """Yield the numbers at the end of a path, each with the names that ``*`` stands for; None is a number that is not known."""
    if not path:
        if value is None or isinstance(value, int | float):
            yield (), value
    elif path[0] == "*":
        for name, inner in (value or {}).items():
            for names, number in _found(inner, path[1:]):
                yield (name, *names), number
    else:
        yield from _found(value.get(path[0]), path[1:])


def status_lines(status: Mapping[str, Any]) -> list[str]:
    """Return `Status.as_dict` as a table for people; unknown fields of other versions are shown too."""
    rows = [("FIELD", "VALUE")]
    for key, value in status.items():
        if isinstance(value, Mapping):
            rows += [(f"{_words(key)} {inner}", _for_people(key, each)) for inner, each in value.items()]
        else:
            rows.append((_words(key), _for_people(key, value)))
    return align(rows, ())


def _words(key: str) -> str:
    """Return a field's name without its unit, which stands behind the value."""
    for ending in ("_us", "_s", "_bytes"):
        key = key.removesuffix(ending)
    return key.replace("_", " ")


def _for_people(key: str, value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if key == "latency_s" and isinstance(value, float):
        return f"{value * 1000:.3f} ms"
    if key == "uptime_s" and isinstance(value, int | float):
        return f"{value:.1f} s"
    if key == "resident_bytes" and isinstance(value, int):
        return f"{value / 2**20:.1f} MiB"
    if key == "now_us" and isinstance(value, int):
        return f"{value / SECOND_US:.6f} s"
    return str(value)


class _Page:
    """A page of metrics; the samples of each metric follow its HELP and TYPE lines."""

    def __init__(self, prefix: str, labels: Mapping[str, str]) -> None:
        self._prefix = _name(prefix)
        self._labels = labels
        self._lines: list[str] = []

    def add(
        self, name: str, kind: str, text: str, value: float | None, labels: Mapping[str, str] | None = None
    ) -> None:
        """Add a metric of one sample."""
        full = self._head(name, kind, text)
        self._sample(full, value, {} if labels is None else labels)

    def add_each(self, gauge: Gauge, values: Mapping[tuple[str, ...], float | None]) -> None:
        """Add a metric with a sample for each of the values of its labels."""
        full = self._head(gauge.name, "counter" if gauge.name.endswith("_total") else "gauge", gauge.help)
        for names, value in values.items():
            self._sample(full, value, dict(zip(gauge.labels, names, strict=True)))

    def summary(self, name: str, text: str, quantiles: Mapping[float, float | None], total: float, count: int) -> None:
        """Add a summary: quantiles, and the sum and number of all observations."""
        full = self._head(name, "summary", text)
        for share, value in quantiles.items():
            self._sample(full, value, {"quantile": f"{share:g}"})
        self._sample(f"{full}_sum", total, {})
        self._sample(f"{full}_count", count, {})

    def text(self) -> str:
        """Return the page; its last line ends with a newline like all others."""
        return "".join([f"{line}\n" for line in self._lines])

    def _head(self, name: str, kind: str, text: str) -> str:
        full = _name(f"{self._prefix}_{name}")
        escaped = text.replace("\\", "\\\\").replace("\n", "\\n")
        self._lines += [f"# HELP {full} {escaped}", f"# TYPE {full} {kind}"]
        return full

    def _sample(self, name: str, value: float | None, labels: Mapping[str, str]) -> None:
        pairs = ",".join([f'{_name(key)}="{_escape(text)}"' for key, text in {**self._labels, **labels}.items()])
        self._lines.append(f"{name}{{{pairs}}} {_number(value)}" if pairs else f"{name} {_number(value)}")


def _name(name: str) -> str:
    if NAME.fullmatch(name) is None:
        raise ValueError(f"{name!r}: expected letters, digits and underscores, and no digit first")
    return name


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float | None) -> str:
    """Return a number as Go's ParseFloat reads it."""
    if value is None or math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if isinstance(value, int) else repr(float(value))


def resident_bytes() -> int | None:
    """Return the resident memory of this process in bytes; None where the system does not report it."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * PAGE_BYTES
    except (OSError, ValueError, IndexError):
        return None
