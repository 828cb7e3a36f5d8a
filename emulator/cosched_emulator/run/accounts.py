"""The accounts of a run: new ones, or those of a killed run, which then resumes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cosched_emulator.accounting.accounts import Accounting
from cosched_emulator.accounting.meta import check_meta, meta_of
from cosched_emulator.run.prepare import Prepared


@contextmanager
def open_accounts(db: str | None, prepared: Prepared, kind: str) -> Iterator[Accounting]:
    """Yield the accounts of a run of this kind: in file ``db``, continued if it exists; in memory if ``db`` is None."""
    if db is not None and Path(db).exists():
        accounting = Accounting.open(db)
        try:
            check_meta(accounting.meta, prepared.scenario, prepared.workload, kind, db)
        except BaseException:
            accounting.close()
            raise
    else:
        accounting = Accounting.create(db, meta_of(prepared.scenario, prepared.workload, kind))
    try:
        yield accounting
    finally:
        accounting.close()
