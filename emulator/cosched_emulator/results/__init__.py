"""What a run leaves behind: records, figures, the run folder, tables and pictures.

Runs, studies, commands and the Python interface ask it. Open first: `record_columns`, the jobs of a run as arrays, on which all
figures are made; ``figures`` computes and shows them, ``files`` writes and reads the run folder, `harm` compares jobs with those of
another run.
"""
