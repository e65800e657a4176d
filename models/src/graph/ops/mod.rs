//! The ops: one file each with attributes, shape rule, reference kernel and cases.
//!
//! To add one: write `ops/NAME.rs` with a struct that implements [`Operator`] and add its line to the table below.
//! Reference kernels are plain and readable, work on any strides, allocate nothing, and are what fast kernels are compared
//! with; they also fold constants.

mod arg_max;
mod cast;
mod concat;
mod constant_of_shape;
mod conv;
mod cum_sum;
mod depth_to_space;
mod dropout;
mod expand;
mod eye_like;
mod flatten;
mod from_node;
mod gather;
mod gather_elements;
mod gather_nd;
mod grid_sample;
mod grid_sample_cases;
mod identity;
mod indexing;
mod non_max_suppression;
mod non_zero;
mod number;
mod one_hot;
mod pad;
mod range;
mod reshape;
mod resize;
mod resize_cases;
mod scatter_elements;
mod scatter_nd;
mod shape;
mod slice;
mod split;
mod squeeze;
mod tile;
mod top_k;
mod transpose;
mod trilu;
mod unsqueeze;
mod where_op;
pub mod window;

pub use arg_max::ArgExtreme;
pub use cast::{Cast, CastLike};
pub use concat::Concat;
pub use constant_of_shape::ConstantOfShape;
pub use conv::{Conv, Residual};
pub use cum_sum::CumSum;
pub use depth_to_space::{DepthToSpace, SpaceToDepth};
pub use dropout::Dropout;
pub use expand::Expand;
pub use eye_like::EyeLike;
pub use flatten::Flatten;
pub use gather::Gather;
pub use gather_elements::GatherElements;
pub use gather_nd::GatherNd;
pub use grid_sample::{GridSample, Outside, Sampling};
pub use identity::Identity;
pub use non_max_suppression::NonMaxSuppression;
pub use non_zero::NonZero;
pub use one_hot::OneHot;
pub use pad::{Pad, PadMode};
pub use range::Range;
pub use reshape::Reshape;
pub use resize::{Aspect, AxisResize, Coordinates, Interpolation, Resize, Rounding};
pub use scatter_elements::ScatterElements;
pub use scatter_nd::{Reduction, ScatterNd};
pub use shape::{ShapeOf, Size};
pub use slice::{AxisRange, Slice, SliceRanges};
pub use split::Split;
pub use squeeze::Squeeze;
pub use tile::Tile;
pub use top_k::TopK;
pub use transpose::Transpose;
pub use trilu::Trilu;
pub use unsqueeze::Unsqueeze;
pub use where_op::Where;

// Numbers
mod batch_norm;
mod binary;
#[cfg(test)]
mod checks;
mod clip;
mod conv_integer;
mod conv_transpose;
mod dequantize;
mod dynamic_quantize;
mod elementwise;
mod gemm;
mod global_pool;
mod group_norm;
mod int_conv;
mod layer_norm;
mod literal;
mod lookup;
mod matmul;
mod matmul_integer;
mod pool;
mod qconv;
mod qlinear_conv;
mod qlinear_matmul;
mod quantize;
mod reduce;
mod softmax;
mod unary;
mod variadic;

pub use batch_norm::BatchNorm;
pub use binary::{Binary, BinaryKind};
pub use clip::Clip;
pub use conv_integer::ConvInteger;
pub use conv_transpose::ConvTranspose;
pub use dequantize::DequantizeLinear;
pub use dynamic_quantize::DynamicQuantizeLinear;
pub use gemm::Gemm;
pub use global_pool::GlobalPool;
pub use group_norm::GroupNorm;
pub use layer_norm::LayerNorm;
pub use lookup::{ByteTable, Lookup, Table};
pub use matmul::MatMul;
pub use matmul_integer::MatMulInteger;
pub use pool::{Pool, PoolKind};
pub use qconv::{QuantConv, QuantOutput};
pub use qlinear_conv::QLinearConv;
pub use qlinear_matmul::QLinearMatMul;
pub use quantize::{QuantizeLinear, quantize};
pub use reduce::{Reduce, ReduceKind};
pub use softmax::Softmax;
pub use unary::Unary;
pub use variadic::{Variadic, VariadicKind};

use super::attrs::NodeInfo;
use crate::{Error, ErrorKind, Result};
use saltica_tensor::{DType, Shape, Tensor, View, ViewMut};
use std::fmt;

/// What is known of an input when shapes are settled.
#[derive(Clone, Copy, Debug)]
pub struct Fact<'a> {
    /// Element type.
    pub dtype: DType,
    /// Concrete shape.
    pub shape: Shape,
    /// The numbers, if they are known: a constant, or any value while a graph is being interpreted.
    pub value: Option<&'a Tensor>,
}

impl<'a> Fact<'a> {
    /// All is known.
    pub fn of(tensor: &'a Tensor) -> Self {
        Fact { dtype: tensor.dtype(), shape: *tensor.shape(), value: Some(tensor) }
    }

    /// The numbers, or [`ErrorKind::NeedsValue`] naming `what`.
    pub fn known(&self, what: &str) -> Result<&'a Tensor> {
        self.value.ok_or_else(|| {
            Error::new(ErrorKind::NeedsValue, format!("the result's shape depends on the value of {what}"))
        })
    }
}

/// What a shape rule says of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutFact {
    /// Element type.
    pub dtype: DType,
    /// Concrete shape.
    pub shape: Shape,
}

/// The input at `i`, or an error saying that it is missing.
pub fn required<T: Copy>(inputs: &[Option<T>], i: usize, what: &str) -> Result<T> {
    inputs
        .get(i)
        .copied()
        .flatten()
        .ok_or_else(|| Error::new(ErrorKind::Malformed, format!("input {i} ({what}) is missing")))
}

/// What every op provides.
pub trait Operator: Clone + fmt::Debug + PartialEq + Send + Sync + Sized {
    /// Reads the attributes of a node whose op type the table maps here. Errors on values this version does not know.
    fn parse(node: &NodeInfo) -> Result<Self>;

    /// The name shown in reports (the ONNX op type where there is one).
    fn name(&self) -> &str;

    /// Output dtypes and shapes. Errors if the inputs do not fit, or with [`ErrorKind::NeedsValue`] if an input's value
    /// decides the shape and is unknown.
    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>>;

    /// The reference kernel. Inputs and outputs have the dtypes and shapes of `infer`, any strides. An output that nobody
    /// asked for is absent at the end of the list. Errors only on values it cannot work with.
    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()>;

    /// The test cases every backend must pass.
    fn cases() -> Vec<Case>;
}

/// How close an output must come to a case's expectation.
#[derive(Clone, Copy, Debug)]
pub enum Tolerance {
    /// Equal (NaN equals NaN).
    Exact,
    /// |got - want| <= absolute + relative * |want|.
    Close {
        /// Absolute part.
        absolute: f64,
        /// Relative part.
        relative: f64,
    },
}

/// A tried-out application of an op: what goes in and what must come out.
#[derive(Clone, Debug)]
pub struct Case {
    /// Says what the case is about; unique within an op.
    pub name: String,
    /// The op.
    pub op: Op,
    /// Inputs in the op's order.
    pub inputs: Vec<Option<Tensor>>,
    /// Expected outputs: from the ONNX text, a peer, or arithmetic done by hand, never from the reference kernel.
    pub expected: Vec<Tensor>,
    /// How close the outputs must be.
    pub tolerance: Tolerance,
}

/// Unwraps a list of cases: building one fails only if its literals contradict each other, which is a bug to show.
#[allow(clippy::panic)]
pub(crate) fn built(
    build: impl FnOnce() -> std::result::Result<Vec<Case>, saltica_tensor::Error>,
) -> Vec<Case> {
    build().unwrap_or_else(|e| panic!("a case's literals contradict each other: {e}"))
}

macro_rules! ops {
    ($($(#[$doc:meta])* $variant:ident($type:path) $(: $($onnx:literal),+)?;)*) => {
        /// An op with its attributes.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Op {
            $($(#[$doc])* $variant($type),)*
        }

        impl Op {
            /// Reads a node. Errors with [`ErrorKind::Unsupported`] on an op type that is not in the table.
            pub fn parse(node: &NodeInfo) -> Result<Op> {
                let op = match node.op_type.as_str() {
                    $($($($onnx => Op::$variant(<$type as Operator>::parse(node)?),)+)?)*
                    other => return Err(Error::unsupported(format!("op {other} of opset {} is not supported", node.opset))),
                };
                node.finish()?;
                Ok(op)
            }

            /// Whether [`Op::parse`] knows this ONNX op type.
            pub fn knows(op_type: &str) -> bool {
                [$($($($onnx,)+)?)*].contains(&op_type)
            }

            /// The name shown in reports.
            pub fn name(&self) -> &str {
                match self { $(Op::$variant(op) => op.name(),)* }
            }

            /// Output dtypes and shapes; see [`Operator::infer`].
            pub fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
                match self { $(Op::$variant(op) => op.infer(inputs),)* }
            }

            /// The reference kernel; see [`Operator::run`].
            pub fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
                match self { $(Op::$variant(op) => op.run(inputs, outputs),)* }
            }

            /// All cases of all ops.
            pub fn cases() -> Vec<Case> {
                let mut all = Vec::new();
                $(all.extend(<$type as Operator>::cases());)*
                all
            }
        }
    };
}

ops! {
    /// 2-D convolution with an optional fused residual and activation.
    Conv(Conv): "Conv";

    // Movement and indexing
    /// Position of the largest or smallest.
    ArgExtreme(ArgExtreme): "ArgMax", "ArgMin";
    /// Another dtype.
    Cast(Cast): "Cast";
    /// The dtype of another tensor.
    CastLike(CastLike): "CastLike";
    /// Inputs laid end to end.
    Concat(Concat): "Concat";
    /// One value everywhere.
    ConstantOfShape(ConstantOfShape): "ConstantOfShape";
    /// Running sums.
    CumSum(CumSum): "CumSum";
    /// Channels turned into pixels.
    DepthToSpace(DepthToSpace): "DepthToSpace";
    /// Nothing, at inference.
    Dropout(Dropout): "Dropout";
    /// Repetition to a broadcast shape.
    Expand(Expand): "Expand";
    /// Ones on a diagonal.
    EyeLike(EyeLike): "EyeLike";
    /// Two dims.
    Flatten(Flatten): "Flatten";
    /// Slices picked by index.
    Gather(Gather): "Gather";
    /// Elements picked by index.
    GatherElements(GatherElements): "GatherElements";
    /// Slices picked by index tuples.
    GatherNd(GatherNd): "GatherND";
    /// Pixels at given places.
    GridSample(GridSample): "GridSample";
    /// The input as it is.
    Identity(Identity): "Identity";
    /// Boxes that no better box overlaps.
    NonMaxSuppression(NonMaxSuppression): "NonMaxSuppression";
    /// Where the elements are that are not zero.
    NonZero(NonZero): "NonZero";
    /// Rows with one place set.
    OneHot(OneHot): "OneHot";
    /// A border.
    Pad(Pad): "Pad";
    /// Numbers in steps.
    Range(Range): "Range";
    /// Another shape for the same elements.
    Reshape(Reshape): "Reshape";
    /// Another size by interpolation.
    Resize(Resize): "Resize", "Upsample";
    /// Elements written by index.
    ScatterElements(ScatterElements): "ScatterElements", "Scatter";
    /// Slices written by index tuples.
    ScatterNd(ScatterNd): "ScatterND";
    /// The dims as numbers.
    Shape(ShapeOf): "Shape";
    /// How many elements there are.
    Size(Size): "Size";
    /// Ranges along axes.
    Slice(Slice): "Slice";
    /// Pixels turned into channels.
    SpaceToDepth(SpaceToDepth): "SpaceToDepth";
    /// The input cut along an axis.
    Split(Split): "Split";
    /// Dims of size 1 removed.
    Squeeze(Squeeze): "Squeeze";
    /// The input side by side with itself.
    Tile(Tile): "Tile";
    /// The k best.
    TopK(TopK): "TopK";
    /// Dims reordered.
    Transpose(Transpose): "Transpose";
    /// A triangle of a matrix.
    Trilu(Trilu): "Trilu";
    /// Dims of size 1 put in.
    Unsqueeze(Unsqueeze): "Unsqueeze";
    /// A choice between two tensors.
    Where(Where): "Where";

    // Numbers
    /// A function of one number, element by element.
    Unary(Unary): "Relu", "Sigmoid", "Tanh", "Exp", "Log", "Sqrt", "Erf", "Floor", "Ceil", "Round", "Cos", "Sin", "Neg",
        "Abs", "Not", "Reciprocal", "Sign", "Softplus", "LeakyRelu", "HardSigmoid", "HardSwish", "Elu", "Mish", "Gelu",
        "IsNaN", "IsInf";
    /// A function of two numbers, element by element, with broadcasting.
    Binary(Binary): "Add", "Sub", "Mul", "Div", "Pow", "Mod", "And", "Or", "Xor", "Equal", "Less", "LessOrEqual",
        "Greater", "GreaterOrEqual", "PRelu";
    /// A function of any count of tensors, element by element, with broadcasting.
    Variadic(Variadic): "Min", "Max", "Sum", "Mean";
    /// Limits to a range.
    Clip(Clip): "Clip";
    /// 2-D pooling.
    Pool(Pool): "MaxPool", "AveragePool";
    /// Pooling over all pixels.
    GlobalPool(GlobalPool): "GlobalAveragePool", "GlobalMaxPool";
    /// Softmax along an axis, or its logarithm.
    Softmax(Softmax): "Softmax", "LogSoftmax";
    /// Matrix product.
    MatMul(MatMul): "MatMul";
    /// Matrix product with transpositions, factors and a bias.
    Gemm(Gemm): "Gemm";
    /// Reduction over axes.
    Reduce(Reduce): "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
        "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp";
    /// Normalisation of channels by known statistics.
    BatchNorm(BatchNorm): "BatchNormalization";
    /// Normalisation over the last dims.
    LayerNorm(LayerNorm): "LayerNormalization";
    /// Normalisation over groups of channels and all pixels.
    GroupNorm(GroupNorm): "GroupNormalization", "InstanceNormalization";
    /// 2-D transposed convolution.
    ConvTranspose(ConvTranspose): "ConvTranspose";
    /// Floats to 8-bit numbers.
    QuantizeLinear(QuantizeLinear): "QuantizeLinear";
    /// Quantized numbers to floats.
    DequantizeLinear(DequantizeLinear): "DequantizeLinear";
    /// Floats to 8-bit numbers with a range found at run time.
    DynamicQuantizeLinear(DynamicQuantizeLinear): "DynamicQuantizeLinear";
    /// 2-D convolution of 8-bit numbers with a fused requantization; made by passes.
    QuantConv(QuantConv);
    /// A function of one 8-bit number through a table; made by passes.
    Lookup(Lookup);
    /// 2-D convolution of 8-bit numbers to i32.
    ConvInteger(ConvInteger): "ConvInteger";
    /// 2-D convolution of 8-bit numbers to 8-bit numbers.
    QLinearConv(QLinearConv): "QLinearConv";
    /// Matrix product of 8-bit numbers to i32.
    MatMulInteger(MatMulInteger): "MatMulInteger";
    /// Matrix product of 8-bit numbers to 8-bit numbers.
    QLinearMatMul(QLinearMatMul): "QLinearMatMul";
}

/// Most bytes that [`Op::evaluate`] allocates for the outputs of one op: far above any detector's values, and an error
/// rather than a killed process where a few numbers in a file ask for terabytes.
const EVALUATE_LIMIT: usize = 2 << 30;

impl Op {
    /// Computes all outputs from known inputs: constant folding, and the interpreter for what has no fixed shape. Errors
    /// with [`ErrorKind::Limit`] if the outputs take more than 2 GiB.
    pub fn evaluate(&self, inputs: &[Option<&Tensor>]) -> Result<Vec<Tensor>> {
        let facts: Vec<_> = inputs.iter().map(|t| t.map(Fact::of)).collect();
        let outputs = self.infer(&facts)?;
        let bytes = outputs
            .iter()
            .fold(0usize, |sum, o| sum.saturating_add(o.shape.elements().saturating_mul(o.dtype.size())));
        if bytes > EVALUATE_LIMIT {
            return Err(Error::new(
                ErrorKind::Limit,
                format!("the result of {} would take {bytes} bytes, {EVALUATE_LIMIT} at most", self.name()),
            ));
        }
        let mut tensors = outputs
            .into_iter()
            .map(|o| Tensor::zeros(o.dtype, o.shape))
            .collect::<std::result::Result<Vec<_>, _>>()?;
        let views: Vec<_> = inputs.iter().map(|t| t.map(Tensor::view)).collect();
        let mut outputs =
            tensors.iter_mut().map(Tensor::view_mut).collect::<std::result::Result<Vec<_>, _>>()?;
        self.run(&views, &mut outputs)?;
        drop(outputs);
        Ok(tensors)
    }
}

/// Compares an output with an expectation; the message names the first element that differs.
pub fn compare(got: &View<'_>, want: &Tensor, tolerance: Tolerance) -> std::result::Result<(), String> {
    if got.dtype() != want.dtype() || got.shape() != want.shape() {
        return Err(format!(
            "{} {} found, {} {} expected",
            got.dtype(),
            got.shape(),
            want.dtype(),
            want.shape()
        ));
    }
    for i in 0..want.shape().elements() {
        let (g, w) = (got.at_f64(i), want.view().at_f64(i));
        let same = g == w || (g.is_nan() && w.is_nan());
        let ok = match tolerance {
            Tolerance::Exact => same,
            Tolerance::Close { absolute, relative } => same || (g - w).abs() <= absolute + relative * w.abs(),
        };
        if !ok {
            return Err(format!("element {i}: {g} found, {w} expected ({tolerance:?})"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_kernels_pass_every_case() {
        let mut failures = Vec::new();
        for case in Op::cases() {
            let inputs: Vec<_> = case.inputs.iter().map(Option::as_ref).collect();
            let outcome = match case.op.evaluate(&inputs) {
                Err(e) => Err(e.to_string()),
                Ok(got) if got.len() < case.expected.len() => Err(format!("{} outputs", got.len())),
                Ok(got) => got
                    .iter()
                    .zip(&case.expected)
                    .try_for_each(|(g, w)| compare(&g.view(), w, case.tolerance)),
            };
            if let Err(e) = outcome {
                failures.push(format!("{} / {}: {e}", case.op.name(), case.name));
            }
        }
        assert!(failures.is_empty(), "{}", failures.join("\n"));
    }

    /// The dims of a roomier, reversed tensor, in which one of this shape lies with gaps between all its elements.
    fn roomy(shape: &Shape) -> Shape {
        let dims: Vec<usize> = shape.iter().rev().map(|d| d + 1).collect();
        Shape::new(&dims).unwrap()
    }

    /// The part of a roomy tensor that has the shape it was made for.
    fn inner<'a>(room: ViewMut<'a>, shape: &Shape) -> ViewMut<'a> {
        let reversed = (0..shape.rank()).rev();
        reversed.clone().enumerate().fold(room, |v, (axis, d)| v.sliced(axis, 1, shape[d], 1).unwrap())
    }

    #[test]
    fn the_reference_kernels_pass_every_case_on_any_strides() {
        let mut failures = Vec::new();
        for case in Op::cases() {
            let facts: Vec<_> = case.inputs.iter().map(|t| t.as_ref().map(Fact::of)).collect();
            let outs = case.op.infer(&facts).unwrap();
            let scattered: Vec<Option<Tensor>> = case
                .inputs
                .iter()
                .map(|t| {
                    let t = t.as_ref()?;
                    let mut room = Tensor::zeros(t.dtype(), roomy(t.shape())).unwrap();
                    let reversed: Vec<usize> = (0..t.shape().rank()).rev().collect();
                    inner(room.view_mut().unwrap(), t.shape())
                        .permuted(&reversed)
                        .unwrap()
                        .copy_from(&t.view());
                    Some(room)
                })
                .collect();
            let inputs: Vec<Option<View<'_>>> = scattered
                .iter()
                .zip(&case.inputs)
                .map(|(room, t)| {
                    let shape = t.as_ref()?.shape();
                    let reversed: Vec<usize> = (0..shape.rank()).rev().collect();
                    let part = (0..shape.rank()).fold(room.as_ref()?.view(), |v, axis| {
                        v.sliced(axis, 1, shape[shape.rank() - 1 - axis], 1).unwrap()
                    });
                    Some(part.permuted(&reversed).unwrap())
                })
                .collect();
            let mut rooms: Vec<Tensor> =
                outs.iter().map(|o| Tensor::zeros(o.dtype, roomy(&o.shape)).unwrap()).collect();
            let mut parts: Vec<ViewMut<'_>> =
                rooms.iter_mut().zip(&outs).map(|(r, o)| inner(r.view_mut().unwrap(), &o.shape)).collect();
            let mut outputs: Vec<ViewMut<'_>> = parts
                .iter_mut()
                .map(|p| {
                    let reversed: Vec<usize> = (0..p.shape().rank()).rev().collect();
                    p.permuted(&reversed).unwrap()
                })
                .collect();
            let outcome = case.op.run(&inputs, &mut outputs).map_err(|e| e.to_string()).and_then(|()| {
                outputs
                    .iter()
                    .zip(&case.expected)
                    .try_for_each(|(got, want)| compare(&got.as_view(), want, case.tolerance))
            });
            if let Err(e) = outcome {
                failures.push(format!("{} / {}: {e}", case.op.name(), case.name));
            }
        }
        assert!(failures.is_empty(), "{}", failures.join("\n"));
    }
}
