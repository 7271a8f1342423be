"""Writing: rows become Arrow tables, Parquet parts and catalog entries."""
