"""Orion."""
