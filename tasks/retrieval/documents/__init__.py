"""Documents of the user's own: markdown, text, HTML, PDF and JSONL files, read as passages."""
