"""Loaded last by the fork server, so that its processes do not collect garbage among the objects it has loaded."""

import gc

gc.freeze()
