"""The scheduler core: events in, actions out, nothing else touched."""
