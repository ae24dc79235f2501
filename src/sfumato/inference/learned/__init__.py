"""Models of queries, learnt from noisy answers: how they are trained, written as ONNX, and how far they are off."""
