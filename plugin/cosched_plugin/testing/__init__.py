"""The conformance check for policies: `check_policy`, the machines and jobs that it draws, and its small resource manager.

Asked by the author of a policy, in a test or by ``cosched-plugin check``. Open `check.py` first: a run, and what is compared
after each batch. `site.py` is the manager that it plays, `sites.py` draws its machine and jobs, `recording.py` asks for the
same answers twice.
"""

from cosched_plugin.testing.check import PolicyCheckError, Report, check_policy

__all__ = ["PolicyCheckError", "Report", "check_policy"]
