"""`python -m cxlab` runs the `cxlab` command."""

import sys

from cxlab._command import main

if __name__ == "__main__":
    sys.exit(main())
