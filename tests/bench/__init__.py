"""What inlinetrace costs beside its peers, measured in one run: ``python -m tests.bench``."""
