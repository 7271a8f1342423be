"""lm-evaluation-harness's logged samples, in."""
