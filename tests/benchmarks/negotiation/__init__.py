"""Negotiations: the rules, the counterparts, whole attempts."""
