"""What a dialogue came to: the database it left, and what the agent said.

Target: ``{"state": {"db": HASH}, "communicate": [...]}``. The headline is 1 if the attempt's final
state equals ``state`` and every text of ``communicate`` was said, else 0. tau2-bench's rule (its
reward basis DB and COMMUNICATE): a text counts as said if it is, lower-cased, part of one message
of the agent, lower-cased and without commas. Commas in the text itself are left out too: there a
text with a comma could never count. The detail has both parts and what was not said.
"""

from collections.abc import Mapping
from typing import Any

from tutti.tasks.scoring.score import Needs, Score, ScorerFailed, ScoringResources, Submission
from tutti.tasks.scoring.target import conversation, needed


class Dialogue:
    """Compares the final state, and looks for what had to be said."""

    name: str = "dialogue"
    version: str = "1"
    needs: Needs = "pure"

    async def score(
        self, target: Mapping[str, Any], submission: Submission, resources: ScoringResources
    ) -> Score:
        """Right if the database is as expected and all was said. Raises ScorerFailed if the
        attempt has no state."""
        expected: dict[str, Any] = needed(target, "state", dict)
        wanted: list[Any] = needed(target, "communicate", list)
        if submission.state is None:
            raise ScorerFailed("dialogue: the attempt carries no final state")
        said = [_plain(text) for text in _texts(submission)]
        missing = [each for each in wanted if not any(_plain(each) in text for text in said)]
        db, communicate = dict(submission.state) == expected, not missing
        correct = db and communicate
        detail = {"db": float(db), "communicate": float(communicate), "not_said": missing}
        return Score(self.name, self.version, float(correct), correct, detail=detail)


def _texts(submission: Submission) -> list[str]:
    """The agent's messages with text."""
    spoken = (m.get("content") for m in conversation(submission) if m["role"] == "assistant")
    return [text for text in spoken if isinstance(text, str) and text]


def _plain(text: str) -> str:
    return text.lower().replace(",", "")
