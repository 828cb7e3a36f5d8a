"""Requests of users to a live manager: server side, client side, and messages."""
