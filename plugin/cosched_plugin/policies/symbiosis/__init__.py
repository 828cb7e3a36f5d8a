"""Symbiosis: a pending job runs beside several running ones at once, and each of these beside several guests.

Asked as a matching, which needs whole nodes and a belief about pairs. Open first: `guests`, the search; then `tenancies`, what is
known of jobs that share nodes. The idea of symbiotic space sharing is J. Weinberg and A. Snavely's (JSSPP 2006).
"""
