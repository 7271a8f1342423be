"""The stages' work, one folder a stage. Logic is plain Python; Prefect wraps it in `flows`."""
