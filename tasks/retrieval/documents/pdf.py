"""Reads PDF files with pypdf: the text of every page. A scan has none and needs OCR first."""

import logging
from pathlib import Path

from pypdf import PdfReader
from pypdf.errors import PyPdfError

from tutti.tasks.retrieval.documents.text import ReadDocument, Unreadable, with_paragraphs

logging.getLogger("pypdf").setLevel(logging.ERROR)  # it warns of each flaw that it can work around


def read_pdf(path: Path) -> ReadDocument:
    """A PDF file, titled by its metadata. Raises Unreadable, OSError."""
    try:
        reader = PdfReader(path)
        if reader.is_encrypted and not reader.decrypt(""):
            raise Unreadable("the PDF needs a password: save it without one")
        pages = [page.extract_text() for page in reader.pages]
        title = (reader.metadata.title if reader.metadata else None) or ""
    except OSError:
        raise
    except PyPdfError as error:
        raise Unreadable(f"not a sound PDF: {error}") from error
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        # What the parser raises for objects that are not what the format says.
        if isinstance(error, Unreadable):
            raise
        raise Unreadable(f"not a sound PDF: {type(error).__name__}: {error}") from error
    try:
        return ReadDocument(title.strip(), with_paragraphs("\n\n".join(pages)))
    except Unreadable:
        raise Unreadable(
            f"the PDF has {len(pages)} pages and no text (a scan?): run OCR first, for example "
            "`ocrmypdf in.pdf out.pdf`"
        ) from None
