"""Programs, queries and proofs that want to be scored as right without being right; what they are
scored on; and right solutions by unusual means."""
