"""Run: ``python -m bench.harness``."""

from bench.harness.run import main

if __name__ == "__main__":
    main()
