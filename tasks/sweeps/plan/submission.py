"""What a scorer sees of an attempt."""

from tutti.tasks.agents import AUTO, OFF, CommandTrajectory, Trajectory, separate
from tutti.tasks.scoring import Submission


def attempted(trajectory: Trajectory, reasoning: str = AUTO) -> Submission:
    """What a scorer sees of a trajectory: not the prompt, whose calls are not the attempt's.

    `reasoning` is the suite's setting, by which the messages are separated already.
    """
    if isinstance(trajectory, CommandTrajectory):  # its messages are with the gateway
        answer = reply_in(trajectory.answer, reasoning)
        return Submission(answer, messages=None, imported=trajectory.imported)
    made = trajectory.messages[trajectory.prompt_messages :]
    return Submission(trajectory.answer, trajectory.text, made, trajectory.world_state)


def reply_in(answer: str | None, reasoning: str) -> str | None:
    """The reply in an answer that a harness gave: it need not have the end tag that the model's
    messages have."""
    parts = separate(answer or "", OFF if reasoning == OFF else AUTO)
    return answer if parts is None else parts[1] or None
