"""Texts with places that are filled in later."""

from pywrapai.prompts.template import PromptTemplate

__all__ = ["PromptTemplate"]
