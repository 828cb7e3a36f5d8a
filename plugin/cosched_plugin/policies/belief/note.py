"""What is remembered of measured slowdowns: sums by pair of applications, and by user of an application.

Logarithms of slowdowns are whole numbers, in millionths, so that a note is the same on every machine.
"""

from __future__ import annotations

from math import log, sqrt
from typing import Final, NamedTuple, TypeAlias, cast

from cosched_plugin.api import WHOLE_PPM, JobFacts, NoteValue

NOTE: Final = "belief"
MICRO: Final = 1_000_000  # of a logarithm
_MOST_NAME: Final = 64  # characters: longer names that begin alike are one
_WINDOW: Final = 20  # measurements that count: older ones fade
# A measurement so many standard deviations from the mean contradicts it, but at least and at most so far: the first ones of an
# application that has changed widen the deviation themselves.
_SIGMAS: Final = 3
_LEAST, _MOST = 100_000, 200_000
_STRIKES: Final = 3  # so many in a row say that the application is another than it was


class Sum(NamedTuple):
    """Measurements of one kind."""

    times: int = 0  # how many count
    mean: int = 0  # of the logarithms
    variance: int = 0

    def plus(self, value: int) -> Sum:
        """Return the same with one more value."""
        count = min(self.times + 1, _WINDOW)
        away = value - self.mean
        mean = self.mean + round(away / count)
        return Sum(count, mean, ((count - 1) * self.variance + away * (value - mean)) // count)

    def denies(self, value: int) -> bool:
        """Tell whether the value contradicts what was measured before."""
        return self.times > 0 and abs(value - self.mean) > max(_LEAST, min(_SIGMAS * sqrt(self.variance), _MOST))


Sums: TypeAlias = dict[tuple[str, str], Sum]


def application(job: JobFacts) -> str:
    """Return what a job is an instance of: its name, or else its user; empty where it has neither."""
    if job.name:
        return job.name[:_MOST_NAME]
    return f"@{job.user[:_MOST_NAME]}" if job.user else ""


class Memory:
    """The content of the note; the entries that were written last are the last ones."""

    __slots__ = ("pairs", "strikes", "users")

    def __init__(self, note: NoteValue = None) -> None:
        """Read a note; one of another form counts as none."""
        self.pairs: Sums = {}  # by application and the one beside it: slowdowns of the first
        self.users: Sums = {}  # by application and user: by how much the user's jobs are slower than others of the application
        self.strikes: dict[str, int] = {}  # by application: measurements in a row that contradict earlier ones
        if not _is_memory(note):
            return
        names, pairs, users, strikes = cast(
            "tuple[tuple[str, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]", note
        )
        for sums, flat in ((self.pairs, pairs), (self.users, users)):
            for one, other, *of in zip(*[iter(flat)] * 5, strict=True):
                sums[names[one], names[other]] = Sum(*of)
        self.strikes = {names[one]: count for one, count in zip(*[iter(strikes)] * 2, strict=True)}

    def note(self, most: int) -> NoteValue:
        """Return the note, with ``most`` pairs and as many users at most: those that were written last."""
        pairs, users, strikes = (dict([*table.items()][-most:]) for table in (self.pairs, self.users, self.strikes))
        names = {name: None for key in [*pairs, *users] for name in key} | dict.fromkeys(strikes)
        place = {name: number for number, name in enumerate(names)}
        flat = [
            tuple([item for (one, other), of in cast(Sums, sums).items() for item in (place[one], place[other], *of)])
            for sums in (pairs, users)
        ]
        struck = tuple([item for name, count in strikes.items() for item in (place[cast(str, name)], cast(int, count))])
        return (tuple(names), *flat, struck)

    def learn(self, job: JobFacts, other: str, slowdown_ppm: int) -> None:
        """Add a measured slowdown of ``job`` beside jobs of the application ``other``."""
        own = application(job)
        value = round(log(slowdown_ppm / WHOLE_PPM) * MICRO)
        known = self.pairs.get((own, other), Sum())
        user = (own, job.user[:_MOST_NAME])
        its = self.users.get(user, Sum())
        if known.denies(value) and (not its.times or its.denies(value - known.mean)):
            forgotten = [self._strike(name) for name in dict.fromkeys((own, other))]
            if True in forgotten:
                known, its = self.pairs.get((own, other), Sum()), self.users.get(user, Sum())
        else:
            self.strikes.pop(own, None)
            self.strikes.pop(other, None)
        if known.times and job.user:
            self.users.pop(user, None)
            self.users[user] = its.plus(value - known.mean)
        self.pairs.pop((own, other), None)
        self.pairs[own, other] = known.plus(value)

    def _strike(self, name: str) -> bool:
        """Count a contradiction; at the last one, forget what is known of the application. Tell whether that was so."""
        count = self.strikes.pop(name, 0) + 1
        if count < _STRIKES:
            self.strikes[name] = count
            return False
        for sums in (self.pairs, self.users):
            for key in [key for key in sums if name in key]:
                del sums[key]
        return True


def _is_memory(note: NoteValue) -> bool:
    """Tell whether a note has the form that `Memory.note` gives it."""
    if type(note) is not tuple or list(map(type, note)) != [tuple] * 4:
        return False
    names, pairs, users, strikes = cast("tuple[tuple[NoteValue, ...], ...]", note)
    if not {*map(type, names)} <= {str} or not {*map(type, (*pairs, *users, *strikes))} <= {int}:
        return False
    places = [*pairs[::5], *pairs[1::5], *users[::5], *users[1::5], *strikes[::2]]
    whole = not (len(pairs) % 5 or len(users) % 5 or len(strikes) % 2)
    counts = (*pairs[2::5], *pairs[4::5], *users[2::5], *users[4::5])
    return whole and all(0 <= cast(int, at) < len(names) for at in places) and all(cast(int, at) >= 0 for at in counts)
