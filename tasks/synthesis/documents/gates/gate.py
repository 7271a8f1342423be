"""The gates of questions about documents: each is one file here and one line in `DOCUMENT_GATES`.

The tests run every gate on its own good and bad examples.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from tutti.tasks.retrieval import Passage
from tutti.tasks.synthesis.documents.base.corpus import Corpus
from tutti.tasks.synthesis.documents.base.from_passages import GAP
from tutti.tasks.synthesis.gating.seen import Seen
from tutti.tasks.synthesis.gating.wording import spaced, words_of
from tutti.tasks.task_sets import Task, Verdict

LEAST_BETWEEN, LEAST_BESIDE = 2, 4
"""Occurrences between the same two words, or beside one of them, that make a guess."""
USUAL = 0.5
"""The share of these that must have the same word."""
Place = tuple[str, str]
"""The word before and the word after; one may be empty: not looked at."""


@dataclass
class Neighbours:
    """Counts of the words at the places that questions ask about."""

    _counts: dict[Place, Counter[str]] = field(default_factory=dict)

    def read(self, tasks: Iterable[Task], passages: Iterable[Passage]) -> None:
        """Count the words at these questions' places in passages; places counted before stay."""
        wanted = {place for each in tasks for place in _places(each)} - self._counts.keys()
        if not wanted:
            return
        found: dict[Place, Counter[str]] = {place: Counter() for place in wanted}
        for passage in passages:
            words = words_of(passage.text)
            for before, word, after in zip(words, words[1:], words[2:], strict=False):
                here = ((before, after), (before, ""), ("", after))
                for place in found.keys() & here:
                    found[place][word] += 1
        self._counts |= found

    def guess(self, task: Task) -> tuple[str, float]:
        """Return the usual word in the gap, with its share; empty if none is usual."""
        own = words_of(task.answer)
        if len(own) != 1:
            return "", 0.0
        for place in _places(task):
            counts = self._counts.get(place, Counter()).copy()
            counts[own[0]] -= 1  # the sentence itself
            total = counts.total()
            word, times = max(counts.items(), key=lambda each: (each[1], each[0]))
            least = LEAST_BETWEEN if all(place) else LEAST_BESIDE
            if total >= least and times / total >= USUAL:
                return word, times / total
        return "", 0.0


def _places(task: Task) -> Sequence[Place]:
    """Return the places of a question's gap, the narrowest first; none without a gap."""
    before, gap, after = task.question.rpartition("? ")[2].partition(GAP)
    if not gap:
        return ()
    one, other = words_of(before)[-1:], words_of(after)[:1]
    found: list[Place] = []
    if one and other:
        found.append((one[0], other[0]))
    found += [(word, "") for word in one] + [("", word) for word in other]
    return found


SEARCHED = 10
"""Hits of a search for a question that gates look at."""


@dataclass
class QuestionContext:
    """The state that the gates of one set share, from first candidate to last."""

    corpus: Corpus
    rank: int = 2
    """The source must be among so many hits of a search for the question."""
    benchmarks: Sequence[str] = ()
    """Texts of questions that a task must not repeat."""
    answers: dict[str, Counter[str]] = field(default_factory=dict)
    """Of each kind, how often candidates have which answer; `note` fills it."""
    seen: Seen = field(default_factory=Seen)
    neighbours: Neighbours = field(default_factory=Neighbours)
    _hits: dict[str, list[Passage]] = field(default_factory=dict)

    def note(self, candidates: Sequence[Task]) -> None:
        """Count candidates' answers, and the documents' words at their gaps, before the first is
        judged."""
        for each in candidates:
            self.answers.setdefault(each.template, Counter())[spaced(each.answer)] += 1
        self.neighbours.read(candidates, self.corpus.passages)

    def search(self, tasks: Sequence[Task]) -> list[list[Passage]]:
        """Return the hits of the agent's search for each question's own words, best first."""
        missing = [each for each in tasks if each.task_id not in self._hits]
        found = self.corpus.search([each.question for each in missing], SEARCHED)
        self._hits |= {each.task_id: hits for each, hits in zip(missing, found, strict=True)}
        return [self._hits[each.task_id] for each in tasks]

    def forget(self) -> None:
        """Drop the hits of a judged batch."""
        self._hits.clear()


@dataclass(frozen=True)
class QuestionExamples:
    """A gate's own examples, over passages of their own; judge the good ones first."""

    passages: Sequence[Passage]
    good: Sequence[Task]
    bad: Sequence[Task]
    benchmarks: Sequence[str] = ()
    """What their context's `benchmarks` must be."""


@dataclass
class QuestionGate:
    """A gate of questions about documents."""

    name: str
    about: str
    """What it asks, as one sentence for the report."""
    judge_one: Callable[[Task, QuestionContext], Verdict]
    examples: QuestionExamples
    searches: bool = False
    """Whether it reads the hits of questions."""

    async def judge(self, tasks: Sequence[Task], context: QuestionContext) -> list[Verdict]:
        """A verdict on each question, in order. Raises EmbedderFailed if the search fails."""
        if self.searches:
            context.search(tasks)  # all at once
        return [self.judge_one(each, context) for each in tasks]
