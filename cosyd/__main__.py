"""``python -m cosyd`` is the same as ``cosyd``."""

import sys

from cosyd.cli import main

if __name__ == "__main__":
    sys.exit(main())
