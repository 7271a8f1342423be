"""Attempts of programs that came to a gateway by base URL, and not from a sweep.

In: what a gateway saw of a program's calls (`ProgramTally`), or, after a kill, its stored calls.
Out: a row of `attempts` with source ``gateway``, in a cell per model and policy of the sweep that
has the gateway's name. While a program runs its state in the catalog is ``running``, so that what a
killed gateway left is found: by the next one of that name, or by `tutti verify --repair`.
"""
