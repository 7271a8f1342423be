"""An agent that is no part of tutti, and the job that trains it."""
