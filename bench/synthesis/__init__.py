"""The bench of task synthesis: what gates catch of seeded defects, and what they cost."""
