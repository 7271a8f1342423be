"""Tests of sentences in Markdown: no code, tables or headings, wrapped lines joined, markup
removed, and sentences cut by a passage's border omitted."""

from hypothesis import given
from hypothesis import strategies as st

from tutti.tasks.retrieval import Passage
from tutti.tasks.synthesis.documents.base.sentences import plain_text, read_sentences, sentences_of

PAGE = """# A heading that ends. With a point.

The first sentence is wrapped
over two lines. The second, e.g. this one, has `code. With a point` and a [link](http://a.b/c_(d)).

| a table. | with cells. |
|---|---|

- An item is **bold** and says
  something. Another sentence of it.
- A second item.

```console
$ nothing. Of this.

Not this. Either.
```

> A quotation is left out. It is.

Is this a question? It ends here.
"""


def test_what_a_page_says() -> None:
    assert [each.plain for each in sentences_of(PAGE)] == [
        "The first sentence is wrapped over two lines.",
        "The second, e.g. this one, has code. With a point and a link.",
        "An item is bold and says something.",
        "Another sentence of it.",
        "A second item.",
        "Is this a question?",
        "It ends here.",
    ]


def test_where_code_stands() -> None:
    found = plain_text("The `--size` of a\n`set` counts.")
    assert found.plain == "The --size of a set counts."
    assert [found.plain[start:end] for start, end in found.code] == ["--size", "set"]


def test_a_border_of_passages_cuts_nothing_into_a_sentence() -> None:
    """The end of a cut sentence and code that began in the previous passage are omitted."""
    parts = [
        "One is whole. Two is cut at",
        "the border. Three is whole.\n```",
        "x = 1. Y = 2.\n```\nFour is.",
    ]
    passages = [Passage(f"a#{n}", text, "", "a", n) for n, text in enumerate(parts)]
    found = [sentence.plain for _, sentence in read_sentences(passages)]
    assert found == ["One is whole.", "Three is whole.", "Four is."]


@given(st.text(alphabet="aB1 .`*_[]()\n-#|~", max_size=200))
def test_a_sentence_is_a_part_of_its_text(text: str) -> None:
    for each in sentences_of(text):
        assert each.raw in text and each.raw.strip() == each.raw
        assert all(0 <= start < end <= len(each.plain) for start, end in each.code)
