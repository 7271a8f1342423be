"""Copies of held-out texts: one guard for training sets, policy jobs, exports and synthesis."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.leaks.held_out import own_texts as own_texts
    from tutti.tasks.leaks.held_out import said_in as said_in
    from tutti.tasks.leaks.held_out import texts_of_lines as texts_of_lines
    from tutti.tasks.leaks.held_out import texts_of_sets as texts_of_sets
    from tutti.tasks.leaks.held_out import without_frame as without_frame
    from tutti.tasks.leaks.index import LeakIndex as LeakIndex

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
