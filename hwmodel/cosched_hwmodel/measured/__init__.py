"""Tables of measured co-runs: how long an application takes beside another one, on half of the cores of twice the nodes."""
