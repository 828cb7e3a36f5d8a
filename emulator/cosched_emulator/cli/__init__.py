"""The commands of cosched-emulator, one module for each group of them.

``commands`` declares options and help, and must load in a tenth of a second; the module of the same name here does the work, and is
imported when the command runs: ``commands/X`` is carried out by ``cli/X``. Two commands have modules of their own, as what they load
would slow down the others of their group: `history` (of ``commands/jobs``, SQLite) and `top` (of ``commands/nodes``, curses). Open
first: `main`, the list of commands, and where errors become exit codes.
"""
