"""Run: ``python -m bench.statistics``."""

from bench.statistics.run import main

if __name__ == "__main__":
    main()
