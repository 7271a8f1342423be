"""Tests of training sets: sequences, masks, guards and files."""
