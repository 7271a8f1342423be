"""The desks of `themes.yaml`, with their questions, checks and acts."""

from functools import cache
from pathlib import Path

from pydantic import RootModel

from tutti.tasks.platform import read_document
from tutti.tasks.synthesis.programs.base.declared import Content, WrongDeclaration


class Question(Content):
    """A fact that only the user knows."""

    tool: str
    finds: str
    said: str
    """How the user says it, with ``{}`` for the value."""
    values: tuple[str, str, str]


class Check(Content):
    """A field of a case: one of three values, or a number."""

    tool: str
    finds: str
    values: tuple[str, ...] = ()
    least: int = 0
    most: int = 0


class Act(Content):
    """An action on a case."""

    tool: str
    words: str
    code: str
    """The first letters of the slip's number."""


class Theme(Content):
    """A kind of desk."""

    name: str
    about: str
    case: str
    """The word for a case."""
    reasons: tuple[str, ...]
    """Why the user calls, with ``{}`` for the case's number."""
    questions: tuple[Question, ...]
    checks: tuple[Check, ...]
    between: tuple[Act, ...]
    """Acts on the way."""
    closing: tuple[Act, ...]
    """Acts that close a case."""

    @property
    def acts(self) -> tuple[Act, ...]:
        """All acts."""
        return (*self.between, *self.closing)


class _Themes(RootModel[tuple[Theme, ...]]):
    """The content of `themes.yaml`."""


@cache
def themes() -> tuple[Theme, ...]:
    """Return all desks."""
    return (
        read_document(Path(__file__).with_name("themes.yaml"), WrongDeclaration).check(_Themes).root
    )
