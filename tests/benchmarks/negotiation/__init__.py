"""Tests of negotiations: rules, counterparts and whole attempts."""
