"""`python -m cxlab`: the command."""

import sys

from cxlab._command import main

if __name__ == "__main__":
    sys.exit(main())
