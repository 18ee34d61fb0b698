"""`python -m soulsgui ROLE`: the same entry point as the console script."""

from soulsgui.cli import main

if __name__ == "__main__":
    main()
