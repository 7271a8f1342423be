"""`tutti sql`: statements, the prompt and the formats of results."""
