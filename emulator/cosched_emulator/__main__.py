"""``python -m cosched_emulator`` is ``cosched-emulator``."""

from cosched_emulator.cli import main

main()
