"""Programs of papers: loops of computing and communicating that stand for real ones, for any length and grain.

A scenario makes the programs of jobs with them (`scenario.process_nodes`). Open first: `paired_gang`, four short ones;
`nas_programs` has those of the NAS benchmarks, made of `pieces`.
"""
