"""Search methods: exact, approximate and lexical, their fusion and reranking."""
