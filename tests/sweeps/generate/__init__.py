"""Tests of `tutti generate`: the work, the files, and their bytes after a kill."""
