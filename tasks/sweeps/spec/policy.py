"""A policy of a suite with options of its own.

In a suite file: ``policies: [passthrough, adaptive, {name: cap, limit: 8}]``.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import pydantic

from tutti.tasks.serving.scheduling import POLICIES, make_policy, policy_options

CAP = "cap"
PolicyName = Literal[
    "passthrough", "cap", "adaptive", "thunderagent", "continuum", "least_attained_service"
]


class Policy(pydantic.BaseModel):
    """A scheduling policy and its options."""

    model_config = pydantic.ConfigDict(extra="allow", frozen=True)

    name: PolicyName = pydantic.Field(description="other keys are the policy's own options")

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.__pydantic_extra__ or {})

    @property
    def full_label(self) -> str:
        """The name with its options, independent of other policies."""
        return "-".join([self.name, *(f"{key}-{value}" for key, value in self.options.items())])

    @property
    def content(self) -> dict[str, Any]:
        """Its part of a cell's id. The limit of `cap` is stored as ``cap``, as it was before
        policies had options."""
        options = self.options
        own: dict[str, Any] = {"policy": self.name}
        if self.name == CAP:
            own["cap"] = options.pop("limit")
        return own | ({"options": options} if options else {})

    @pydantic.model_validator(mode="before")
    @classmethod
    def _resolved(cls, given: Any) -> Any:
        """Normalise a policy: an option at its default is left out, and 5 and 5.0 are one
        number."""
        if not isinstance(given, Mapping) or given.get("name") not in POLICIES:
            return given
        name, options = given["name"], {key: given[key] for key in given if key != "name"}
        if options:
            make_policy(name, options)  # ValueError names the wrong option
        return {"name": name} | (policy_options(name, options) if options else {})

    @pydantic.model_serializer
    def _as_given(self) -> dict[str, Any]:
        return {"name": self.name, **self.options}


GivenPolicy = Annotated[
    Annotated[PolicyName, pydantic.Tag("<name>")] | Annotated[Policy, pydantic.Tag("<options>")],
    pydantic.Discriminator(lambda given: "<name>" if isinstance(given, str) else "<options>"),
]
"""A policy as a suite writes it. Error messages leave out parts in angle brackets."""


def labels_of(policies: Sequence[Policy]) -> list[str]:
    """Return the label of each in tables: its name, with its options if the name is ambiguous."""
    times = Counter(policy.name for policy in policies)
    return [policy.name if times[policy.name] == 1 else policy.full_label for policy in policies]


def policy_in(label: str) -> str:
    """Return the name of the policy that tables call `label`; names have no hyphens."""
    return label.partition("-")[0]
