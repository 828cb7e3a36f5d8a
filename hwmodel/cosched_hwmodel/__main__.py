"""``python -m cosched_hwmodel`` is ``cosched-hwmodel``."""
# Under 60 lines: an entry point.

from cosched_hwmodel.cli.main import main

main()
