"""Sweeps: suites become plans, plans become cells, cells become attempts in the store."""
