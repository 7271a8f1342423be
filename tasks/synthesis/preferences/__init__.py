"""Preferences over tools, cost and latency: task sets with preferences, and measured profiles."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.synthesis.preferences.checker import preference_reason as preference_reason
    from tutti.tasks.synthesis.preferences.making import PreferenceRequest as PreferenceRequest
    from tutti.tasks.synthesis.preferences.making import PreferenceSource as PreferenceSource
    from tutti.tasks.synthesis.preferences.profile import Profile as Profile
    from tutti.tasks.synthesis.preferences.profile import ProfileRequest as ProfileRequest
    from tutti.tasks.synthesis.preferences.profile import describe_profile as describe_profile
    from tutti.tasks.synthesis.preferences.profile import measure_profile as measure_profile
    from tutti.tasks.synthesis.preferences.profile import read_profile as read_profile
    from tutti.tasks.synthesis.preferences.profile import write_profile as write_profile

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
