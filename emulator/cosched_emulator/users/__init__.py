"""Requests of users to a running manager: their form (`requests`, `answers`, `idset`), the client and the server side."""
