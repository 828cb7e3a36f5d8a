"""``python -m cosched_emulator`` is ``cosched-emulator``."""

from cosched_emulator.cli.main import main

main()
