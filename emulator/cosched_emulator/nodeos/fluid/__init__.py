"""The fluid cluster: jobs progress at rates that short exact simulations of the same situation have measured."""
