"""Sources of domain tasks: by a program, by a teacher, and selections of a stored set."""
