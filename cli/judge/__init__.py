"""The verbs that judge: compare, gate, score."""
