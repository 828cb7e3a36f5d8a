"""The conformance check for policies: `check_policy`, the machines and jobs that it draws, and its small resource manager."""

from cosched_plugin.testing.check import PolicyCheckError, Report, check_policy

__all__ = ["PolicyCheckError", "Report", "check_policy"]
