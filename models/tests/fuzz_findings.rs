//! What the fuzz targets (`models/fuzz`) found, each as the smallest input that showed it.

use saltica_models::graph::Op;
use saltica_models::graph::attrs::NodeInfo;
use saltica_tensor::Tensor;

/// `ops`: a resize to no elements copied the one element of its input.
#[test]
fn resize_to_nothing() {
    let mut node = NodeInfo::new("Resize", 17, 4, Vec::new());
    node.inputs = vec![true, false, false, true];
    let op = Op::parse(&node).unwrap();
    let (x, sizes) =
        (Tensor::from_slice(&[1], &[2.0f32]).unwrap(), Tensor::from_slice(&[1], &[0i64]).unwrap());
    let y = op.evaluate(&[Some(&x), None, None, Some(&sizes)]).unwrap();
    assert_eq!(y[0].shape().dims(), [0]);
}
