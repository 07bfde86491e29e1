"""The sandbox in which Orion-2 will run model-written code. Nothing is here yet."""
