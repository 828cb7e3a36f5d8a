"""The matrix of gang scheduling in `top`: slots are rows, nodes are columns, and the cells are jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from cosched_emulator.cli.users.top_lines import BOLD, CHOSEN, DIM, ONE, OUT, PLAIN, SHARED, Line, add
from cosched_emulator.users.idset import read_idset

Row = Mapping[str, Any]
_MOST_TURNS: Final = 4  # named as the next ones
_STYLES: Final = {"row": ONE, "partner": SHARED, "guest": SHARED}  # of jobs that run now, by what they run as
_OUT: Final = {"DOWN": "x", "DRAINED": "d"}


def now_line(slots: Mapping[str, Any]) -> str:
    """Return in a line what runs now, and what comes next."""
    turns, turn = slots["turns"], slots["turn"]
    if turn is None:
        present = "no job can run" if turns or not slots["rows"] else "slot 0 runs all the time"
        return f"slots    {present}; quanta of {slots['quantum_s']:g} s"
    firsts = [each["slots"][0] for each in turns]
    place = firsts.index(turn["slots"][0]) + 1 if turn["slots"][0] in firsts else 0
    after = [_turn_text(each) for each in (*turns[place:], *turns[: max(0, place - 1)])]
    following = (
        f"; then {', '.join([*after[:_MOST_TURNS], *(['...'] if len(after) > _MOST_TURNS else [])])}" if after else ""
    )
    left = f" ({slots['left']} more)" if slots["left"] else ""
    return f"slots    quantum {slots['quantum']} of {slots['quantum_s']:g} s: {_turn_text(turn)}{left}{following}"


def matrix_lines(
    slots: Mapping[str, Any], nodes: Sequence[Row], chosen: int | None, width: int, most: int
) -> list[Line]:
    """Return the matrix in at most ``most`` lines, at most ``width`` wide, with the chosen node and the row that runs.

    A line begins with ``>`` if it is that row's turn, with ``+`` if it is the partner, ``*`` if only a guest of it runs; then come
    the slot and its partner in the rotation, and the largest share predicted for its jobs.
    """
    rows = slots["rows"]
    if most < 2 or not rows or not nodes:
        return []
    partners = {turn["slots"][0]: turn["slots"] for turn in slots["turns"]}
    labels = ["+".join(map(str, partners.get(row["slot"], [row["slot"]]))) for row in rows]
    wide = max(4, *map(len, labels))
    size = 1 + max(len(str(len(nodes) - 1)), *[len(cell["job"]) for row in rows for cell in row["jobs"]])
    columns = _window(len(nodes), max(1, (width - wide - 8) // size), chosen or 0)
    head: Line = [(f"  {'SLOT':<{wide}}  CPU ", BOLD)]
    for node in columns:
        style = CHOSEN if node == chosen else OUT if nodes[node]["state"] in _OUT else BOLD
        add(head, " " * (size - len(str(node))), BOLD)
        add(head, str(node), style)
    marks = [_mark(row, slots["turn"]) for row in rows]
    shown = _window(len(rows), most - 1, marks.index(">") if ">" in marks else 0)
    return [head, *[_row_line(rows[row], marks[row], f"{labels[row]:<{wide}}", columns, size, nodes) for row in shown]]


def _mark(row: Row, turn: Row | None) -> str:
    """Return whether a row runs now."""
    if turn is not None and row["slot"] in turn["slots"]:
        return ">" if row["slot"] == turn["slots"][0] else "+"
    return "*" if any(cell["runs_as"] == "guest" for cell in row["jobs"]) else " "


def _row_line(row: Row, mark: str, label: str, columns: range, size: int, nodes: Sequence[Row]) -> Line:
    there: dict[int, list[Row]] = {}
    for cell in row["jobs"]:
        for node in read_idset(cell["node_list"]):
            there.setdefault(node, []).append(cell)
    share = max(cell["predicted"] for cell in row["jobs"])
    line: Line = [(f"{mark} {label} {share:>4.0%} ", BOLD if mark != " " else PLAIN)]
    for node in columns:
        cells = there.get(node, ())
        text = "".join([cell["job"] for cell in cells[:1]]) + ("&" if len(cells) > 1 else "")
        state = _OUT.get(nodes[node]["state"])
        style = OUT if state and not cells else DIM
        for cell in cells:
            style = _STYLES.get(cell["runs_as"], PLAIN)
        add(line, f"{text or state or '.':>{size}}"[-size:], style)
    return line


def _window(count: int, most: int, place: int) -> range:
    """Return at most ``most`` of ``count`` numbers, with ``place`` among them."""
    first = max(0, min(place - most // 2, count - most))
    return range(first, min(count, first + most))


def _turn_text(turn: Row) -> str:
    """Return a turn in a few words, such as ``0+2 x3 with 7``."""
    quanta = f" x{turn['quanta']}" if turn["quanta"] > 1 else ""
    guests = f" with {' '.join(turn['guests'])}" if turn["guests"] else ""
    return f"{'+'.join(map(str, turn['slots']))}{quanta}{guests}"
