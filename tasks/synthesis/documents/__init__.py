"""Questions about a user's own documents: an index in, a task set with its sources out."""
