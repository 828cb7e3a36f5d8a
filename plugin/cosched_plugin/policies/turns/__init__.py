"""What takes turns, whatever it is: classes of jobs in time slices, rows of jobs in gang scheduling.

The order of turns (`cycle`), what belongs to each (`members`), where others have room beside it (`room`), and how a turn takes the
nodes over from the one before (`switching`). Policies without turns meet those of other policies in `one_slot`.
"""
