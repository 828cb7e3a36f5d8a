"""The runs of a study on an existing dask.distributed cluster, extra ``[cluster]``."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any, Final
from uuid import uuid4

from cosched_emulator.errors import LinkError
from cosched_emulator.studies.cell_run import CellOrder, Failure, Result, carry_out
from cosched_plugin.common.errors import UsageError

_POLL_S: Final = 0.5
_CONNECT_S: Final = 10


class DaskCluster:
    """Runs orders on the workers of a cluster; used as a context, at whose end the cluster is left as it was.

    The cluster repeats the runs of workers that die. Files are read where the workers are.
    """

    def __init__(self, address: str, timeout_s: float) -> None:
        """Raises UsageError without the extra and for what is no address, LinkError where no scheduler answers at ``address``."""
        try:
            distributed: Any = import_module("distributed")  # an extra
        except ImportError as error:
            raise UsageError(
                "--dask needs dask.distributed, which is not installed: pip install 'cosched[cluster]'"
            ) from error
        self.address, self.timeout_s = address, timeout_s
        try:
            if not address.startswith(("ucx:", "inproc:")):  # for which there is no check
                distributed.comm.get_address_host_port(address)
        except (OSError, ValueError) as error:
            raise UsageError(f"--dask {address}: expected an address such as tcp://head:8786: {error}") from error
        try:
            self.client: Any = distributed.Client(address, timeout=_CONNECT_S, set_as_default=False)
        except (OSError, ValueError) as error:
            raise LinkError(f"no dask scheduler answers within {_CONNECT_S} s: {error}", address) from error

    def __enter__(self) -> DaskCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def run(self, orders: Sequence[CellOrder], tick: Callable[[], None]) -> Iterator[Result | Failure]:
        """Yield what comes of each order, in the order in which the runs end.

        Raises LinkError if the scheduler goes away, or if no run ends for the time that one may take.
        """
        ended: queue.Queue[Any] = queue.Queue()
        run = uuid4().hex  # what another study left on the cluster is not taken for ours
        by_scenario = sorted(orders, key=lambda order: order.group)  # a worker keeps the last one that it prepared
        futures = {}
        for order in by_scenario:
            future = self.client.submit(carry_out, order, key=f"cosched-{order.key}-{run}", pure=False)
            futures[future.key] = order
            future.add_done_callback(ended.put)
        last = time.monotonic()
        while futures:
            tick()
            try:
                future = ended.get(timeout=_POLL_S)
            except queue.Empty:
                self._check(time.monotonic() - last)
                continue
            outcome = self._outcome(futures[future.key], future)
            if outcome is None:
                future.add_done_callback(ended.put)
                self._check(time.monotonic() - last)
                continue
            last = time.monotonic()
            del futures[future.key]
            yield outcome

    def _check(self, silent_s: float) -> None:
        if self.client.status != "running" and silent_s > _CONNECT_S:
            raise LinkError(f"the dask scheduler went away ({self.client.status})", self.address)
        if silent_s > self.timeout_s:
            raise LinkError(f"no run ended for {self.timeout_s:g} s (--timeout)", self.address)

    def _outcome(self, order: CellOrder, future: Any) -> Result | Failure | None:
        """Return what came of the order, None if its result died with a worker: the cluster then repeats the run."""
        try:
            if future.status == "finished":
                outcome: Result | Failure = future.result(timeout=_CONNECT_S)
                future.release()
                return outcome
            if future.status == "error":
                return Failure(order.key, " ".join(str(future.exception(timeout=_CONNECT_S)).split()))
        except TimeoutError:  # the worker died while its result was being fetched
            return None
        except Exception as error:  # what a run raises is caught where it is made
            text = f"the dask scheduler went away: {type(error).__name__}: {error}"
            raise LinkError(text, self.address) from error
        if future.status in {"lost", "pending"}:
            return None
        raise LinkError(f"the dask scheduler gave up a run ({future.status})", self.address)
