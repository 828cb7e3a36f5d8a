"""The emulator in Batsim's place: schedulers that were written for Batsim 4 drive it.

Asked by the command `cosched-emulator batsim`. Open `simulator.py` first: time advances from instant to instant, what happens is told,
and decisions are carried out at their times by the emulator's own manager. `workload.py` and `platform.py` read Batsim's files,
`power.py` has the states of hosts, `run.py` writes what Batsim writes.
"""
