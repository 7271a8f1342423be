"""Night files: sweeps on a schedule, their verdicts, and notifications."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.nights.notify import ALERTS as ALERTS
    from tutti.tasks.nights.notify import ended as ended
    from tutti.tasks.nights.notify import night_dict as night_dict
    from tutti.tasks.nights.notify import planned_for as planned_for
    from tutti.tasks.nights.notify import tell as tell
    from tutti.tasks.nights.notify import tell_failure as tell_failure
    from tutti.tasks.nights.record import Record as Record
    from tutti.tasks.nights.record import accept_night as accept_night
    from tutti.tasks.nights.record import begin_night as begin_night
    from tutti.tasks.nights.record import enter_night as enter_night
    from tutti.tasks.nights.record import last_accepted_night as last_accepted_night
    from tutti.tasks.nights.record import night_records as night_records
    from tutti.tasks.nights.record import nights_due as nights_due
    from tutti.tasks.nights.spec import Night as Night
    from tutti.tasks.nights.spec import NightFile as NightFile
    from tutti.tasks.nights.spec import is_night as is_night
    from tutti.tasks.nights.spec import read_night as read_night
    from tutti.tasks.nights.verdict import NightContext as NightContext
    from tutti.tasks.nights.verdict import StageResult as StageResult
    from tutti.tasks.nights.verdict import judge_night as judge_night
    from tutti.tasks.nights.verdict import measure_stages as measure_stages

if not TYPE_CHECKING:  # with it, a type checker would take any name for one of ours
    __getattr__ = lazy(__name__, __file__)
