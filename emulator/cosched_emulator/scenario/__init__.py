"""The input of a run: settings, planned faults, and the parts built from them."""
