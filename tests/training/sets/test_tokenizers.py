"""Tests that ids of another vocabulary are never trained, and that the same tokens in another file
count as equal."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sqlalchemy", reason="the store needs the platform: make test-fast")

from tests.conftest import NewCatalog
from tests.training.sets.recorded import ENDS, Attempt, enter
from tutti.storage import Home
from tutti.tasks.training import JobError, TrainingData, build_set
from tutti.tasks.training.sets.guards import vocabulary_of

WORDS = {"a": 0, "b": 1, "ab": 2}


def model(folder: Path, words: dict[str, int] = WORDS, merges: Any = ("a b",)) -> Path:
    folder.mkdir()
    made: dict[str, Any] = {"model": {"type": "BPE", "vocab": words, "merges": list(merges)}}
    made |= {"added_tokens": [{"id": 3, "content": "<end>", "special": True}]}
    (folder / "tokenizer.json").write_text(json.dumps(made))
    return folder


def test_the_same_tokens_written_otherwise_are_the_same(tmp_path: Path) -> None:
    one = model(tmp_path / "one")
    other = model(tmp_path / "other", dict(reversed(WORDS.items())), [["a", "b"]])
    assert vocabulary_of(one) == vocabulary_of(other) is not None
    swapped = model(tmp_path / "swapped", {"b": 0, "a": 1, "ab": 2})
    assert vocabulary_of(swapped) != vocabulary_of(one)
    assert vocabulary_of(tmp_path) is None


def test_attempts_of_another_tokenizer_are_left_out(
    tmp_path: Path, new_catalog: NewCatalog
) -> None:
    """Those of an unknown tokenizer are counted; if no attempt is left, the error has the
    reason."""
    base = model(tmp_path / "base")
    folders = {"own": base, "foreign": model(tmp_path / "foreign", {"b": 0, "a": 1, "ab": 2})}
    with new_catalog(Home(tmp_path / "store")) as catalog:
        for name, folder in folders.items():
            catalog.enter_artifact(f"checkpoint:{name}", {"folder": str(folder)})
            catalog.enter_artifact(f"engine:{name}", {}, [f"checkpoint:{name}"])
        engines = ("own", "foreign", "elsewhere")
        enter(catalog, [Attempt(n, more={"engine_id": f"engine:{n}"}) for n in engines])
        data = TrainingData.model_validate({"from": "select attempt_id from attempts"})
        made = build_set(data, ENDS, catalog, base=base)
        assert made.manifest["dropped"] == {"ids of another tokenizer": 1}
        assert (made.manifest["sequences"], made.manifest["unknown_tokenizer"]) == (2, 1)
        query = "select attempt_id from attempts where engine_id = 'engine:foreign'"
        alone = TrainingData.model_validate({"from": query})
        with pytest.raises(JobError, match="1 x ids of another tokenizer"):
            build_set(alone, ENDS, catalog, base=base)
