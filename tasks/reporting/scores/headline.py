"""The words for what a cell's headline score is: `headlines.measure`."""

ACCURACY, MEAN_SCORE = "accuracy", "mean score"
