"""Tests of tasks/reporting."""
