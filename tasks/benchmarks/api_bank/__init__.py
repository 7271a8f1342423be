"""API-Bank: single calls and whole dialogues."""
