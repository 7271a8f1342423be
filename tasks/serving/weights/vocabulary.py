"""Whether a tokenizer can be that of a model.

In: tokenizer.json and config.json. A vocabulary with an id that the model has no embedding for is
another model's: the server would start, and fail or answer nonsense at the first such token.
A smaller one says nothing, for embeddings are padded. Added tokens are left out: families have some
above the embeddings that no prompt uses.
"""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from tutti.tasks.serving.errors import WeightsError
from tutti.tasks.serving.weights.files import read_json
from tutti.tasks.serving.weights.kv_cache import text_config

TOKENIZER = "tokenizer.json"


def require_tokenizer_of(folder: Path, config: Mapping[str, Any]) -> None:
    """Raises WeightsError where tokenizer.json has ids beyond the embeddings of config.json.

    A folder without tokenizer.json, and a configuration without a size, are not judged.
    """
    path = folder / TOKENIZER
    embeddings = text_config(config).get("vocab_size")
    if not path.is_file() or not isinstance(embeddings, int):
        return
    state = path.stat()
    largest = _largest_id(path, state.st_size, state.st_mtime_ns)
    if largest is not None and largest >= embeddings:
        raise WeightsError(
            f"{path}: token ids up to {largest:,}, and {folder / 'config.json'} has {embeddings:,} "
            "embeddings (vocab_size): not of one model; copy the tokenizer from where the weights "
            "are from"
        )


@lru_cache(maxsize=64)
def _largest_id(path: Path, size: int, changed_ns: int) -> int | None:
    """The largest id of a vocabulary; None in a form that is not known. Read once a state of the
    file, for it may have 30 MB."""
    model = read_json(path).get("model")
    vocabulary = model.get("vocab") if isinstance(model, Mapping) else None
    if isinstance(vocabulary, Mapping):
        ids = [each for each in vocabulary.values() if isinstance(each, int)]
        return max(ids, default=None)
    return len(vocabulary) - 1 if isinstance(vocabulary, list) else None
