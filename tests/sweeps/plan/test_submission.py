"""Tests of the scorer's view of an attempt: its own messages and calls, and for a harness only what
is known."""

from tutti.tasks.agents.commands.command import CommandTrajectory
from tutti.tasks.agents.loop import Trajectory
from tutti.tasks.scoring import Score
from tutti.tasks.sweeps.run.records import attempted

SYSTEM, SAID = {"role": "system", "content": "s"}, {"role": "assistant", "content": "it is 7"}


def test_the_prompt_is_not_the_attempts() -> None:
    """Otherwise the prompt's calls would count as made."""
    done = Trajectory([SYSTEM, SAID], 1, answer="7", world_state={"reward": 1.0})
    seen = attempted(done)
    assert (seen.answer, seen.text, seen.messages) == ("7", "it is 7", [SAID])
    assert seen.state == {"reward": 1.0} and seen.imported is None


def test_a_harness_made_what_only_the_gateway_saw() -> None:
    """The calls are unknown; a conversation without calls would be scored."""
    own = Score("inspect/match", "1", 1.0, True)
    seen = attempted(CommandTrajectory(answer="7", imported=own))
    assert seen.answer == "7" and seen.messages is None and seen.imported is own
