"""Programs, queries and proofs that try to be scored as correct without being correct, their
targets, and correct solutions by unusual means."""
