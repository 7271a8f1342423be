"""Replies of a model to the rows of a file, without a score: `tutti generate`."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.sweeps.generate.check import CheckedFile as CheckedFile
    from tutti.tasks.sweeps.generate.check import check_file as check_file
    from tutti.tasks.sweeps.generate.output import Prompts as Prompts
    from tutti.tasks.sweeps.generate.output import prompts_of as prompts_of
    from tutti.tasks.sweeps.generate.output import write_seeds as write_seeds
    from tutti.tasks.sweeps.generate.request import GenerateRequest as GenerateRequest
    from tutti.tasks.sweeps.generate.request import GivenSolutions as GivenSolutions
    from tutti.tasks.sweeps.generate.request import check_written as check_written
    from tutti.tasks.sweeps.generate.work import Part as Part
    from tutti.tasks.sweeps.generate.work import given_settings as given_settings
    from tutti.tasks.sweeps.generate.work import merge_chunks as merge_chunks
    from tutti.tasks.sweeps.generate.work import open_work as open_work
    from tutti.tasks.sweeps.generate.work import settings_of as settings_of
    from tutti.tasks.sweeps.generate.work import suite_of_part as suite_of_part

if not TYPE_CHECKING:  # with it, a type checker would take any name for one of ours
    __getattr__ = lazy(__name__, __file__)
