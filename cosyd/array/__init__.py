"""The microphone array: where voices come from, and only the one that matters."""
