"""Scores of cells: headline scores, and the metrics beside them."""
