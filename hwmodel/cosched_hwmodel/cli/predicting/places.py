"""Where two applications of a table of co-runs sit on a node."""

from __future__ import annotations

from cosched_hwmodel.cli.errors import CommandError
from cosched_hwmodel.cli.seats import threads_of_seat
from cosched_hwmodel.composite.calibration.pair_fit import Places
from cosched_hwmodel.topology import NodeShape


def places_on(node: NodeShape, seat: str | None) -> Places:
    """Return two threads of a seat; without a seat, half of the cores of each socket for either, a process on each core.

    Raises CommandError for a seat that the node does not have, and sockets that cannot be halved.
    """
    if seat is not None:
        first, second = threads_of_seat(node, seat)
        return Places(node, 1, 1 << first, 1 << second)
    half, odd = divmod(node.cores_per_socket, 2)
    if odd:
        raise CommandError(
            node.name, f"expected an even number of cores in a socket, got {node.cores_per_socket} (or --seat)"
        )
    cores = [socket * node.cores_per_socket + core for socket in range(node.sockets) for core in range(half)]
    row = sum(1 << core for core in cores)
    return Places(node, len(cores), row, row << half)
