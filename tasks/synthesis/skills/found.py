"""What a discovery of skills gives, whoever makes it."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

OTHER = "other"
"""The skill of labels that too few tasks have."""
UNASSIGNED = "unassigned"
"""The skill of tasks that the teacher gave none."""


@dataclass(frozen=True)
class FoundSkills:
    """A skill for each task."""

    of_task: Mapping[str, str]
    """By task id."""
    merged: Mapping[str, str]
    """By label, the skill that it became."""
    about: Mapping[str, str] = field(default_factory=dict)
    """By skill, a sentence."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """By what failed, why tasks are unassigned."""

    @property
    def sizes(self) -> dict[str, int]:
        """Tasks by skill, the largest first."""
        return dict(Counter(self.of_task.values()).most_common())
