"""The live cluster: a manager in real or scaled time, users' commands, accounting, restarts.

The command ``serve`` asks `serving` for one. Open first: `live_server`, whose `LiveServer.run` tells the whole story; then
`live_manager`, a state machine without sockets, whose steps `journal` writes and plays again. A submission goes `live_server`,
`live_manager`, `user_commands`, `dependencies` (jobs that wait for others), `outbox` (what the scheduler is told next), `manager`.
"""
