"""Tests of tasks/serving/weights."""
