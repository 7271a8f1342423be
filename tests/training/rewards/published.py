"""EPO's weights of turns as released, for comparison with ours."""

from tutti.tasks.training.jobs.rewards import GAMMA, Dialogue, returns


def published_weights(dialogue: Dialogue, gamma: float = GAMMA) -> list[float]:
    """Return the released weights of one dialogue's turns, 0 to 1."""
    last = len(dialogue.picked) - 1
    rewards = [
        1.0 if picked else dialogue.outcome * (nth == last)
        for nth, picked in enumerate(dialogue.picked)
    ]
    found = returns(rewards, gamma)
    most = max((abs(value) for value in found), default=0.0)
    return [value / most if most else 0.0 for value in found]
