"""Studies: many runs declared in one file, made in parallel, and analysed together.

The command ``study`` and ``cosched_emulator.study`` ask it (docs/studies.md). Open first: `runner`, which tells the whole study;
`experiment` reads the file, `cells` lists the runs, `cell_run` makes one, `study_folder` keeps each, `study_result`
reads them all.
"""
