"""Tests of training: rewards and training sets; tests that need torch run in the models
environment."""
