"""RULER: synthetic tasks of long contexts, generated from knobs."""
