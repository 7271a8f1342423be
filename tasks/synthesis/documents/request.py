"""What a set of questions about documents is asked for by."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from tutti.storage import content_hash
from tutti.tasks.synthesis.documents.gates import DOCUMENT_GATES
from tutti.tasks.synthesis.documents.gates.gate import SEARCHED

DOCUMENTS_VERSION = "1"
"""Of what proposes and judges questions, but for the gates' names and the teacher's prompt."""
RUN_FIELDS = frozenset({"index", "usd", "calls", "concurrency"})
"""They decide what a run may spend, or name what is in the hash by its id."""


class DocumentsRequest(BaseModel):
    """The parameters of a set of questions about the documents of an index."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    index: str = Field(min_length=1, description="the index, by id or folder (`tutti index`)")
    size: int = Field(200, ge=1, le=100_000, description="questions that pass every gate")
    seed: int = Field(0, description="decides which sentences or passages are asked about")
    rank: int = Field(
        2, ge=1, le=SEARCHED, description="a search for the question finds its source so early"
    )
    contamination: bool = Field(
        True, description="compare with the questions of every task set and benchmark in the store"
    )
    teacher: str = Field("", description="a model of the registry that asks; empty: a program")
    usd: float | None = Field(None, gt=0, description="most that one run of it may cost, USD")
    calls: int | None = Field(None, ge=1, description="most calls of one run of the teacher")
    concurrency: int = Field(8, ge=1, le=256, description="calls of the teacher at once")

    def as_asked(self, index_id: str) -> dict[str, Any]:
        """All that decides what is made."""
        return self.model_dump(exclude=set(RUN_FIELDS)) | {"index": index_id}

    def request_hash(self, index_id: str, prompt: str = "") -> str:
        """Of `as_asked`, and of what makes and judges it. `prompt`: the hash of the teacher's."""
        return content_hash(
            [DOCUMENTS_VERSION, list(DOCUMENT_GATES), prompt, self.as_asked(index_id)]
        )
