"""``python -m cosched_plugin`` is ``cosched-plugin``."""
# Under 60 lines: an entry point.

from cosched_plugin.cli.main import main

main()
