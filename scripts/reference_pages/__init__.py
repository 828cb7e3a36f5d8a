"""The pages of docs/reference, printed from the programs.

`main` has the table of pages: a name, and the function that returns the page's lines. `policies` and `emulator` hold these
functions. A page is never edited by hand: what it says stands in the code, and a test compares the two.
"""
