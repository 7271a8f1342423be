"""Run: ``python -m bench.scheduling``."""

from bench.scheduling.run import main

if __name__ == "__main__":
    main()
