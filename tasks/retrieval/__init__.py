"""Corpora, indexes and the retrieval service. Import names from the modules that hold them."""
