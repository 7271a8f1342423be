"""The stages of a call in the gateway: head, body, wait, engine, answer."""
