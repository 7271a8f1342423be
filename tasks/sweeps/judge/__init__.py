"""Judge stored sweeps: comparisons, gates, labels, and scoring again."""
