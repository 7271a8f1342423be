"""Tests of the gateway: HTTP, protocols and faults."""
