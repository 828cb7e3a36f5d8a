"""Requests of users to a running manager: their vocabulary (`requests`, `answers`, `idset`), the client and the server side."""
