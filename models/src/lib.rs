//! What a model is: ONNX in, typed graph out.
