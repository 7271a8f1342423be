"""Documents of the user's own."""
