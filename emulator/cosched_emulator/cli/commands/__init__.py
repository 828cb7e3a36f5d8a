"""The options and the help of every command, and nothing else: ``--help`` pays for no module that does work.

``cli.main`` imports a module of these when its command is asked for; the decorator `implementation` names the module beside
this package that carries the command out. Open first: `jobs`.
"""
