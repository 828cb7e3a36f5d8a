"""Contention models by name, built in or written by others.

A scenario and a scheduler ask `by_name`, the file to open first, for a model; `custom` is the contract of models of others,
`importing` how they are found. The other modules make each built-in model a model of pairs of jobs.
"""
