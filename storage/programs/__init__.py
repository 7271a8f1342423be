"""Attempts of programs that came to a gateway by base URL, and not from a sweep.

In: a program's calls as a gateway saw them (`ProgramTally`), or, after a kill, its stored calls.
Out: a row of `attempts` with source ``gateway``. Its state in the catalog is ``running`` meanwhile,
so that the next gateway of that name, or `tutti verify --repair`, finds what a killed one left.
"""
