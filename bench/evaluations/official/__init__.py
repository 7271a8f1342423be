"""Programs that run in the environment of an official evaluator; they import nothing of tutti."""
