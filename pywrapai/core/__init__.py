"""Values and control flow that everything else in the engine stands on; no I/O of its own."""
