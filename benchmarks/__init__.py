"""Measurements against the raw SDKs and the bare interpreter, as ratios in one run."""
