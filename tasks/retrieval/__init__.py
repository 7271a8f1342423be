"""Corpora, indexes and the retrieval service. Import names from the modules that hold them."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.retrieval.bm25 import WordIndex as WordIndex
    from tutti.tasks.retrieval.corpus import Document as Document
    from tutti.tasks.retrieval.corpus import Parameter as Parameter
    from tutti.tasks.retrieval.corpus import corpus_id as corpus_id
    from tutti.tasks.retrieval.corpus import load_stdlib_corpus as load_stdlib_corpus
    from tutti.tasks.retrieval.errors import RetrievalError as RetrievalError
    from tutti.tasks.retrieval.index import build_index as build_index
    from tutti.tasks.retrieval.index import read_manifest as read_manifest

__getattr__ = lazy(__name__, __file__)
