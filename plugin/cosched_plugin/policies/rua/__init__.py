"""LessConsume and Resource-Usage-Aware backfilling (RUA paper).

Asked as a placement (`lessconsume.py`, which other backfills may use) and as a backfill (`backfill.py`). Open `backfill.py`
first: which job goes next. The place with the least loss is found in `lessconsume.py`; losses are those of
`planning/losses.py`.
"""
