"""What is in an answer of slurmrestd: its records, one of which may be odd, its errors, and what these mean."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from cosched_plugin.protocol.errors import Fault, refuse, show
from cosched_plugin.slurm.transport import Reply

_MOST_WORDS: Final = 300  # letters of what is passed on of an error
_HELD: Final = 2042  # `Job is in held state`: no error where a job is to be held
_ARRAY: Final = "job array update"  # the one error, without a number, of an array's change that has worked


class Unread(NamedTuple):
    """A record that is no JSON by itself, or is nested too deeply."""

    name: object  # of its job or node, if that can be seen
    why: str


ODD: Final = (Fault, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
_TOKEN: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[][{}]', re.DOTALL)


def read_answer(reply: Reply, key: str = "") -> Mapping[str, Any]:
    """Return the content of an answer, or an empty one where it is cut off; of ``key``, a list of records, each may be `Unread`."""
    try:
        content = json.loads(reply.text) if reply.text else {}
    except (ValueError, RecursionError):
        content = _read_apart(reply.text, key) if key else {}
    return content if isinstance(content, Mapping) else {}


def _read_apart(text: str, key: str) -> Any:
    """Return the content of an answer in which one of the records cannot be read: each is read by itself."""
    places = list(_places(text, key))
    frame, begin = [], 0
    for first, end in places:
        frame += [text[begin:first], "{}"]
        begin = end
    try:
        content = json.loads("".join([*frame, text[begin:]]))
    except (ValueError, RecursionError):
        return {}
    if places:
        records = iter(places)
        content[key] = [_record(text[slice(*next(records))]) if row == {} else row for row in content[key]]
    return content


def _places(text: str, key: str) -> Iterator[tuple[int, int]]:
    """Yield where the records of the list ``key`` of a map begin and end, by their brackets alone."""
    wanted, word = json.dumps(key), ""
    depth = first = 0
    inside = False
    for token in _TOKEN.finditer(text):
        match token[0]:
            case "[" | "{" as bracket:
                depth += 1
                if depth == 2:
                    inside = bracket == "[" and word == wanted
                elif depth == 3:
                    first = token.start()
            case "]" | "}":
                if depth == 3 and inside:
                    yield first, token.end()
                depth -= 1
            case word_there if depth == 1:
                word = word_there


def _record(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        found = re.search(r'"job_id"\s*:\s*(\d{1,10})\b', text) or re.search(r'"name"\s*:\s*("[^"\\]{1,255}")', text)
        return Unread(json.loads(found[1]) if found else None, why_odd(error))


def name_of(row: Any) -> object:
    """Return the number of a job, or the name of a node; None where it is not to be seen."""
    if isinstance(row, Unread):
        return row.name
    if not isinstance(row, Mapping):
        refuse("a map", row)
    key = row.get("job_id") or row.get("name") or row.get("LicenseName")
    return key if type(key) in (int, str) else None  # True is equal to 1


def key_of(row: Any) -> object:
    """Return the same, and None for what is no record."""
    with suppress(*ODD):
        return name_of(row)
    return None


def why_odd(error: BaseException) -> str:
    """Return what is wrong with a record."""
    match error:
        case Fault():
            return f"{error.path}: {error.text}" if error.path else error.text
        case KeyError():
            return f"{error.args[0]}: missing"
        case RecursionError():
            return "it is nested too deeply"
        case json.JSONDecodeError():
            return f"no JSON: {error}"
        case ValueError() if "digits" in str(error):
            return "a number has too many digits"
        case _:
            return f"{type(error).__name__}: {error}"[:_MOST_WORDS]


def denial(reply: Reply) -> str:
    """Return why who asks is not known, in words; empty where that is no matter."""
    return f"{reply.denied} ({'; '.join(errors_in(read_answer(reply))) or reply.text[:100]})" if reply.denied else ""


def says_unchanged(content: Mapping[str, Any]) -> bool:
    """Return whether an empty list means that nothing has changed: from v0.0.40 on that is no status 304."""
    with suppress(LookupError, TypeError, AttributeError):
        return content["last_update"]["number"] == 0 and not errors_in(content)
    return False


def errors_in(content: Mapping[str, Any]) -> list[str]:
    """Return what is in `errors`, in words."""
    errors = content.get("errors") or []
    return [
        _plain(
            ", ".join(str(error[key]) for key in ("description", "error", "error_number") if key in error)
            if isinstance(error, Mapping)
            else str(error)
        )
        for error in map(flat, errors if isinstance(errors, list) else [errors])
    ]


def flat(error: Any) -> Any:
    """Return an error with single values alone."""
    if isinstance(error, Mapping):
        return {key: show(value) if isinstance(value, list | Mapping) else value for key, value in error.items()}
    return show(error) if isinstance(error, list) else error


def _plain(text: str) -> str:
    """Return words that a message may hold."""
    return text[:_MOST_WORDS].encode("utf-8", "replace").decode()


def is_none(error: Any) -> bool:
    """Return whether an error says that nothing is wrong."""
    if not isinstance(error, Mapping):
        return False
    number = error.get("error_number", error.get("error_code"))
    return number == _HELD or (number is None and str(error.get("description", "")).startswith(_ARRAY))
