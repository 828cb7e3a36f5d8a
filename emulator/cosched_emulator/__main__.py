"""``python -m cosched_emulator`` is ``cosched-emulator``."""
# Under 60 lines: an entry point.

from cosched_emulator.cli.main import main

main()
