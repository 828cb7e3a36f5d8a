"""Communication-driven coscheduling: what a process does while its message is not there, and which process runs next.

``messaging`` asks a policy at each wait and each arrival; settings name it. Open first: `protocol`, what a policy decides;
`policies` has one class for each.
"""
