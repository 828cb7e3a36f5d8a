"""A real node measured: what it has, how fast small kernels run on it, alone and in pairs."""
