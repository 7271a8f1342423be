"""The figures of reports, read from the store."""
