"""Run: ``python -m bench.store``."""

from bench.store.run import main

if __name__ == "__main__":
    main()
