"""What a scorer sees of an attempt: what was made, and of a harness no more than is known."""

from tutti.tasks.agents.commands.command import CommandTrajectory
from tutti.tasks.agents.loop import Trajectory
from tutti.tasks.scoring import Score
from tutti.tasks.sweeps.run.records import attempted

SYSTEM, SAID = {"role": "system", "content": "s"}, {"role": "assistant", "content": "it is 7"}


def test_the_prompt_is_not_the_attempts() -> None:
    """Its calls would count as made."""
    done = Trajectory([SYSTEM, SAID], 1, answer="7", world_state={"reward": 1.0})
    seen = attempted(done)
    assert (seen.answer, seen.text, seen.messages) == ("7", "it is 7", [SAID])
    assert seen.state == {"reward": 1.0} and seen.imported is None


def test_a_harness_made_what_only_the_gateway_saw() -> None:
    """Not a conversation without calls: that would be scored."""
    own = Score("inspect/match", "1", 1.0, True)
    seen = attempted(CommandTrajectory(answer="7", imported=own))
    assert seen.answer == "7" and seen.messages is None and seen.imported is own
