"""What a run is made of: settings, planned faults, and the parts built from them."""
