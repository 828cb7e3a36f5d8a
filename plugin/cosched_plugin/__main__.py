"""``python -m cosched_plugin`` is ``cosched-plugin``."""

from cosched_plugin.cli.main import main

main()
