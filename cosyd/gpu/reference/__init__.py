"""What each kernel must compute, in float64 NumPy: plain, slow, one stream at a time."""
