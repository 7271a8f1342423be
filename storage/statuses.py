"""The statuses of attempts that count in a score.

`infra_error` and `cancelled` never count; `scorer_error` counts once the attempt has a score. The
view `counted` applies the rule; Python uses the constants for attempts that are not stored yet.
"""

COUNTED = ("ok", "limit", "model_error")
SCORABLE = (*COUNTED, "scorer_error")
"""Statuses of attempts that a scorer may score again."""
