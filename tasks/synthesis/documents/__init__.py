"""Questions about a user's own documents: from an index to a task set with sources."""
