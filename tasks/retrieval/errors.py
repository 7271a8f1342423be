"""Errors of retrieval."""

from tutti.errors import TuttiError


class RetrievalError(TuttiError, RuntimeError):
    """Base class: a retrieval operation failed; the message says what to do."""


class CorpusRefused(RetrievalError):
    """A document is invalid; the message names its line or id."""


class ImportRefused(RetrievalError):
    """Another program's index, or its documents, cannot be read or do not match."""


class IndexDamaged(RetrievalError):
    """An index's folder lacks a file or holds one that does not fit the others."""


class EmbedderFailed(RetrievalError):
    """The embedding endpoint refused, answered invalid data, or did not answer."""


class FilterUnknown(RetrievalError):
    """A filter names a document or a pool that the index lacks."""


class RerankerFailed(RetrievalError):
    """The reranking endpoint refused, answered invalid data, or did not answer."""


class WebSearchFailed(RetrievalError):
    """The web search refused, answered invalid data, or timed out."""
