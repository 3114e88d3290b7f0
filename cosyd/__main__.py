"""``python -m cosyd``."""

import sys

from cosyd.cli import main

if __name__ == "__main__":  # workers are spawned, and import this module again
    sys.exit(main())
