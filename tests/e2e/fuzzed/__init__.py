"""Requests drawn for the fuzz test of HTTP services, and measurement of the services."""
