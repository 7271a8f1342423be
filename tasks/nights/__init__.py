"""Night files: sweeps on a schedule, their verdicts, and who is notified."""
