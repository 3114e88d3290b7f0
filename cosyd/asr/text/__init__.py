"""From what was said to what one would write: numbers in figures, sentences, masked words."""
