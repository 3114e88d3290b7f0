"""Networks behind one interface: TensorRT, ONNX Runtime on CUDA and on the CPU. Importing this loads none."""
