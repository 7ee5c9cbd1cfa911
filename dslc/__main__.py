"""`python -m dslc` is the command `dslc`."""

from dslc.cli.main import main

if __name__ == "__main__":
    main()
