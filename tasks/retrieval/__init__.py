"""Corpora, indexes and the retrieval service. Import names from the modules that hold them."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.retrieval.adopt import ForeignFiles as ForeignFiles
    from tutti.tasks.retrieval.adopt import import_index as import_index
    from tutti.tasks.retrieval.bm25 import WordIndex as WordIndex
    from tutti.tasks.retrieval.build import MANIFEST as MANIFEST
    from tutti.tasks.retrieval.build import EmbedWorkers as EmbedWorkers
    from tutti.tasks.retrieval.corpus import Document as Document
    from tutti.tasks.retrieval.corpus import Parameter as Parameter
    from tutti.tasks.retrieval.corpus import corpus_id as corpus_id
    from tutti.tasks.retrieval.corpus import load_stdlib_corpus as load_stdlib_corpus
    from tutti.tasks.retrieval.documents import open_documents as open_documents
    from tutti.tasks.retrieval.embedder import Embedder as Embedder
    from tutti.tasks.retrieval.embedder import NearnessIndex as NearnessIndex
    from tutti.tasks.retrieval.endpoint import EndpointEmbedder as EndpointEmbedder
    from tutti.tasks.retrieval.errors import CorpusRefused as CorpusRefused
    from tutti.tasks.retrieval.errors import EmbedderFailed as EmbedderFailed
    from tutti.tasks.retrieval.errors import RetrievalError as RetrievalError
    from tutti.tasks.retrieval.index import Index as Index
    from tutti.tasks.retrieval.index import build_index as build_index
    from tutti.tasks.retrieval.index import read_manifest as read_manifest
    from tutti.tasks.retrieval.passage import Passage as Passage
    from tutti.tasks.retrieval.passage import PassageStore as PassageStore
    from tutti.tasks.retrieval.probe import manifest_page as manifest_page
    from tutti.tasks.retrieval.probe import recall_line as recall_line
    from tutti.tasks.retrieval.spec import STDLIB_TEMPLATE as STDLIB_TEMPLATE
    from tutti.tasks.retrieval.spec import IndexSpec as IndexSpec

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
