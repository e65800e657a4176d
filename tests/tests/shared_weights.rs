//! Nodes may share their weights and differ in all else: each gets a kernel that fits its own operands.

use saltica_core::{Session, SessionOptions};
use saltica_models::graph::attrs::Attr;
use saltica_models::onnx::build::ModelBuilder;
use saltica_tensor::{DType, Tensor};
use saltica_tests::backends;

/// The same bytes seen as signed by one convolution and as unsigned by the other, with one set of weights.
#[test]
fn signed_and_unsigned_inputs_share_weights() {
    let dims = |c: usize| [1.into(), c.into(), 4.into(), 4.into()];
    let weights: Vec<i8> = (0..8 * 4 * 9).map(|i| (i * 37 % 255 - 127) as i8).collect();
    let pads = [("kernel_shape", Attr::Ints(vec![3; 2])), ("pads", Attr::Ints(vec![1; 4]))];
    let graph = ModelBuilder::new(17)
        .input("signed", DType::I8, &dims(4))
        .input("unsigned", DType::U8, &dims(4))
        .initializer("w", &Tensor::from_slice(&[8, 4, 3, 3], &weights).unwrap())
        .node("ConvInteger", &["signed", "w"], &["a"], &pads)
        .node("ConvInteger", &["unsigned", "w"], &["b"], &pads)
        .output("a", DType::I32)
        .output("b", DType::I32)
        .graph()
        .unwrap();
    let bytes: Vec<u8> = (0..64u32).map(|i| (i * 89 + 7) as u8).collect();
    let signed: Vec<i8> = bytes.iter().map(|&b| b as i8).collect();
    let inputs = [
        ("signed", Tensor::from_slice(&[1, 4, 4, 4], &signed).unwrap()),
        ("unsigned", Tensor::from_slice(&[1, 4, 4, 4], &bytes).unwrap()),
    ];
    let inputs: Vec<(&str, &Tensor)> = inputs.iter().map(|(n, t)| (*n, t)).collect();
    let mut want: Option<Vec<Vec<i32>>> = None;
    for named in backends::all().unwrap() {
        let mut session =
            Session::from_graph(graph.clone(), named.backend, SessionOptions::default()).unwrap();
        let got: Vec<Vec<i32>> = session
            .run(&inputs)
            .unwrap_or_else(|e| panic!("{}: {e}", named.name))
            .iter()
            .map(|(_, t)| t.as_slice::<i32>().unwrap().to_vec())
            .collect();
        assert_ne!(got[0], got[1], "the sign matters to the sums");
        assert_eq!(want.get_or_insert_with(|| got.clone()), &got, "{}", named.name);
    }
}
