"""Run: ``python -m bench.synthesis``."""

from bench.synthesis.run import main

if __name__ == "__main__":
    main()
