"""Policies: orders, backfills and placements, and their compositions.

Asked by the core, once a batch, through what `composition` has put together: open `composition/composed.py` first, then the
backfill of the policy in question (`backfilling/easy.py` is the one that most others resemble). A folder is a family of
parts; `planning` is the base of several. All of it imports `cosched_plugin.api` alone, as a policy of yours does.
"""
