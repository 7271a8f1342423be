"""The machine: doctor, Prefect's server, its deployments."""
