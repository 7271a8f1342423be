"""Tests of a folder of documents: the content read from each kind, and messages for skipped
files."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.tasks.retrieval import CorpusRefused, open_documents
from tutti.tasks.retrieval.documents import read_documents, split_text

PAGE = """<!doctype html><html><head><title>Tea &amp; coffee</title><style>p {}</style></head>
<body><h1>Drinks</h1><p>Tea is   <b>green</b>.</p><script>bad()</script>
<pre>a  b</pre><ul><li>one<li>two</ul></body></html>"""


def pdf(text: str, title: str = "") -> bytes:
    """Return a PDF of one page."""
    stream = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET" if text else ""
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        "/Resources << /Font << /F1 5 0 R >> >> >>",
        f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        f"<< /Title ({title}) >>",
    ]
    data, places = "%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(data))
        data += f"{number} 0 obj\n{body}\nendobj\n"
    start = len(data)
    lines = "".join(f"{place:010} 00000 n \n" for place in places)
    data += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{lines}"
    data += f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R /Info 6 0 R >>\n"
    return f"{data}startxref\n{start}\n%%EOF\n".encode()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with documents of each kind."""
    made = tmp_path / "docs"
    (made / "sub").mkdir(parents=True)
    (made / ".git").mkdir()
    (made / ".git" / "a.md").write_text("hidden")
    (made / "guide.md").write_text(
        "```\n# not this\n```\n# The guide #\n\n\n \nFirst.\r\n\r\nSecond."
    )
    (made / "sub" / "note.txt").write_bytes(b"\xef\xbb\xbfA note.")
    (made / "sub" / "page.HTML").write_text(PAGE)
    (made / "paper.pdf").write_bytes(pdf("Water boils.", "On water"))
    (made / "rows.jsonl").write_text(json.dumps({"id": "r1", "text": "a row"}) + "\n")
    (made / "image.png").write_bytes(b"\x89PNG\0")
    return made


def test_each_kind_is_read(folder: Path) -> None:
    """Every document has title, text, id and source; skipped files are counted."""
    found = read_documents(folder)
    assert [(p.id, p.title, p.source, p.text) for p in found.passages] == [
        (
            "guide.md#0",
            "The guide",
            "guide.md",
            "```\n# not this\n```\n# The guide #\n\nFirst.\n\nSecond.",
        ),
        ("paper.pdf#0", "On water", "paper.pdf", "Water boils."),
        ("r1", "", "", "a row"),
        ("sub/note.txt#0", "note", "sub/note.txt", "A note."),
        (
            "sub/page.HTML#0",
            "Tea & coffee",
            "sub/page.HTML",
            "Drinks\n\nTea is green.\n\na  b\n\none\n\ntwo",
        ),
    ]
    assert found.lines == ["5 files read, 5 passages; skipped: 1 hidden, 1 of another kind"]


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("scan.pdf", pdf(""), "the PDF has 1 pages and no text (a scan?): run OCR first"),
        ("torn.pdf", b"%PDF-1.4\nnothing", "not a sound PDF: "),
        ("data.txt", b"a\0b", "binary, not text"),
        ("old.txt", "caf\u00e9".encode("latin-1"), "not UTF-8 (byte 3): convert it first"),
        ("empty.md", b" \n", "the file is empty"),
        ("app.html", b"<body><script>run()</script>", "the page has no text: it may be made by"),
    ],
)
def test_what_cannot_be_read_is_named(folder: Path, name: str, data: bytes, words: str) -> None:
    """The other documents are indexed; if there are none, it is an error."""
    (folder / name).write_bytes(data)
    told: list[str] = []
    passages = open_documents(folder, told.append)
    assert isinstance(passages, list) and len(passages) == 5
    assert told[0].startswith(f"{folder / name}: {words}")
    assert told[-1].endswith("1 unreadable or without text")
    with pytest.raises(CorpusRefused, match="no document to index"):
        read_documents(folder / name)


def test_links_do_not_lead_out_of_the_folder(folder: Path, tmp_path: Path) -> None:
    """The folder is from another user and has a link to a file of this user."""
    (tmp_path / "key.txt").write_text("secret")
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "key.txt").write_text("secret")
    (folder / "a.txt").symlink_to("../key.txt")
    (folder / "sub" / "b.txt").symlink_to(tmp_path / "key.txt")
    (folder / "c").symlink_to("../private")
    (folder / "d.txt").symlink_to("c/key.txt")
    (folder / "e.txt").symlink_to("e.txt")
    (folder / "f.txt").symlink_to("sub/note.txt")
    (tmp_path / "also").symlink_to(folder)
    for place in (folder, tmp_path / "also"):
        found = read_documents(place)
        assert found.files == 6 and not any("secret" in each.text for each in found.passages)
        assert "4 linked from outside, 2 of another kind" in found.lines[-1]


def test_what_is_no_document_is_refused(folder: Path) -> None:
    """Errors are raised for a file of another kind and a folder without documents; a JSONL file is
    passed on unchanged."""
    with pytest.raises(CorpusRefused, match=r"image\.png: not one of \.md, "):
        read_documents(folder / "image.png")
    with pytest.raises(CorpusRefused, match="skipped: 1 hidden"):
        (folder / "sub" / "note.txt").rename(folder / "sub" / ".note")
        (folder / "sub" / "page.HTML").unlink()
        read_documents(folder / "sub")
    with pytest.raises(CorpusRefused, match="no such file or folder"):
        open_documents(folder / "nowhere", print)
    assert open_documents(folder / "rows.jsonl", print) == folder / "rows.jsonl"


@given(st.lists(st.text("ab \n", max_size=60)), st.integers(4, 40))
def test_passages_keep_every_word_and_their_length(paragraphs: list[str], most: int) -> None:
    """The words stay in order, and no passage is longer than the limit."""
    text = "\n\n".join(paragraphs)
    passages = split_text(text, most)
    assert all(0 < len(passage) <= most for passage in passages)
    assert "".join("".join(passages).split()) == "".join(text.split())
