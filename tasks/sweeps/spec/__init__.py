"""Suite files: what a sweep measures, how its load arrives and what it must reach."""
