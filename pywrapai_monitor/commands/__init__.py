"""The commands of `python -m pywrapai_monitor`, one module for those that belong together."""
