"""Games, shops and role-play: worlds with an episode and a reward."""
