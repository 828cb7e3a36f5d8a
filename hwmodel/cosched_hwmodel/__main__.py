"""``python -m cosched_hwmodel`` is ``cosched-hwmodel``."""

from cosched_hwmodel.cli.main import main

main()
