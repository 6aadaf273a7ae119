"""Operators with more than one implementation of equal value."""
