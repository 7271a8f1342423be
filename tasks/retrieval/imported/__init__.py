"""Indexes that another program built: read where they lie, without a copy."""
