"""Tests of `tutti generate`: the work, the files, their bytes after a kill."""
