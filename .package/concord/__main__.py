"""`python -m concord`: the command line, for a Python whose scripts are not on the path."""

from concord.flows.cli import main

if __name__ == "__main__":
    main()
