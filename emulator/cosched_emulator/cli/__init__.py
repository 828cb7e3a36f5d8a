"""The commands of cosched-emulator, one module for each group of them."""
