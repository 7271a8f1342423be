"""A call's way through the gateway: head, body, wait, engine, answer."""
