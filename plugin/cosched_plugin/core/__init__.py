"""The scheduler core: it turns events into actions, without other effects."""
