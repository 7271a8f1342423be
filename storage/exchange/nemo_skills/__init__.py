"""NeMo-Skills' outputs, in."""
