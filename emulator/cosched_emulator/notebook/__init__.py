"""What Python and notebooks ask of finished runs: comparisons, who loses, what if; and how each result shows itself there.

`comparing` has the calls (``from cosched_emulator import compare, classes, losers, what_if``); `views` has HTML and a picture for each
kind of result, which `results.shown` loads when one is shown. Open first: `comparing`.
"""
