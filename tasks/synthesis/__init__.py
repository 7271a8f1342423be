"""Task synthesis: families propose, duplicates go, gates decide; see `generate`."""
