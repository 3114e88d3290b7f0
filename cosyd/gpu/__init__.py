"""The front end on an NVIDIA GPU: kernels, one graph launch a hop. Importing this loads no CUDA library."""
