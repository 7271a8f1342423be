"""Access control, and the routes of the gateway's own API and page."""
