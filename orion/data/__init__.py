"""The model catalogue and the model families, as JSON."""
