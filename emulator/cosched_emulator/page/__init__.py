"""The report: one self-contained HTML page about runs or studies.

The commands ``report``, ``study`` and whatever else shows results on a page ask it: build a `document.Page` of paragraphs,
tables and figures, and hand it to `document.write_page`. Open first: `document`; `run_page` and `study_page` say what is on a
page, `schedule` packs the Gantt chart, ``assets`` has the style and the scripts, and uPlot.
"""
