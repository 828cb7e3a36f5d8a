"""Symbiosis: a pending job runs beside several running ones at once, and each of these beside several guests.

Asked as a matching, which needs whole nodes and a belief about pairs. Open first: `guests`, the search; what is known of jobs
that share nodes is in `cosched_plugin.parts.tenancies`. The idea of symbiotic space sharing is J. Weinberg and A. Snavely's
(JSSPP 2006).
"""
