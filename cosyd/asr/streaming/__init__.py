"""Streaming models with cached state: any number of streams through one network, a chunk at a time."""
