"""`python -m apass`: the command line."""

from apass.cli import main

if __name__ == "__main__":
    main()
