"""Run: ``python -m bench.train``."""

from bench.train.run import main

if __name__ == "__main__":
    main()
