use super::int8::{PackedConvInteger, PackedQuantConv};
use crate::testing::layouts;
use crate::{Isa, Pool};
use proptest::prelude::*;
use saltica_models::graph::Activation;
use saltica_models::graph::ops::window::{AutoPad, Window};
use saltica_models::graph::ops::{ByteTable, ConvInteger, Operator, QuantConv, QuantOutput};
use saltica_tensor::{DType, Layout, Shape, Tensor, View, ViewMut};

fn bytes(seed: u64, len: usize) -> Vec<u8> {
    crate::testing::noise(seed, len).into_iter().map(|v| (v * 127.9 + 128.0) as u8).collect()
}

/// Bytes at the places of a layout, in a buffer of exactly its span.
fn spread_bytes(values: &[u8], layout: &Layout) -> Vec<u8> {
    let mut out = vec![0xAA; layout.span()];
    for (i, index) in layout.shape().indices().enumerate() {
        out[layout.offset(&index)] = values[i];
    }
    out
}

fn view<'a>(dtype: DType, data: &'a [u8], layout: Layout) -> View<'a> {
    if dtype == DType::I8 {
        View::of_slice::<i8>(bytemuck::cast_slice(data), layout).unwrap()
    } else {
        View::of_slice::<u8>(data, layout).unwrap()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn sums_and_bytes_are_exact_on_every_isa(
        channels in prop_oneof![
            (1usize..40, 1usize..40).prop_map(|(c, o)| (1usize, c, o)),
            (1usize..10, 1usize..5).prop_map(|(c, o)| (1usize, c * 4, o * 16)),
            (2usize..40).prop_map(|c| (c, 1, 1)),
            (2usize..4, 1usize..9, 1usize..9),
        ],
        kernel in prop_oneof![Just([1usize, 1]), Just([3, 3]), [1usize..5, 1..5]],
        stride in [1usize..3, 1..3], dilation in [1usize..3, 1..3], pads in [0usize..3, 0..3, 0..3, 0..3],
        size in [1usize..3, 1..10, 1..14],
        signs in any::<[bool; 3]>(), zeros in [0i32..256, 0..256, 0..256], asymmetric in any::<bool>(),
        output in 0usize..4, act in 0usize..5, extras in any::<[bool; 2]>(), seeds in any::<[u64; 2]>(),
    ) {
        let (group, ic, oc) = channels;
        let window = Window { kernel, stride, dilation, pads, auto_pad: AutoPad::Explicit, ceil_mode: false };
        let Ok([oh, ow]) = window.output([size[1], size[2]]) else { return Ok(()) };
        let dtype = |signed: bool| if signed { DType::I8 } else { DType::U8 };
        let zero = |i: usize| if signs[i] { zeros[i] - 128 } else { zeros[i] };
        let o = group * oc;
        let scales: Vec<f32> = (0..o).map(|i| 0.001 + 0.0003 * (i % 7) as f32).collect();
        let w_zero = if asymmetric { (0..o as i32).map(|i| (zero(1) + i).rem_euclid(128)).collect() }
            else { vec![if signs[1] { 0 } else { 128 }] };
        let activation = [Activation::None, Activation::Relu, Activation::LeakyRelu(0.1), Activation::HardSwish,
            Activation::Clip(-1.0, 6.0)][act];
        let table = ByteTable::new(DType::U8, std::array::from_fn(|i| (i * 7) as u8)).unwrap();
        let output = match output {
            0 => QuantOutput::Float { activation },
            i => QuantOutput::Quantized {
                dtype: dtype(signs[2]), scale: 0.037, zero: zero(2), activation,
                table: (i == 3).then_some(table),
            },
        };
        let mut op = QuantConv::new(window, group, zero(0), w_zero, 0.02, &scales, output).unwrap();
        if extras[1] {
            op = op.with_float_bias(crate::testing::noise(5, o));
        }
        let xs_shape = Shape::new(&[size[0], group * ic, size[1], size[2]]).unwrap();
        let w_shape = Shape::new(&[o, ic, kernel[0], kernel[1]]).unwrap();
        let y_shape = Shape::new(&[size[0], o, oh, ow]).unwrap();
        let layout = |shape: Shape, seed: u64| if seed.is_multiple_of(3) { layouts(shape, seed) }
            else { Layout::channels_last(shape, shape[1] + (seed % 4) as usize).unwrap() };
        let (lx, ly) = (layout(xs_shape, seeds[0]), layout(y_shape, seeds[1]));
        let xs = spread_bytes(&bytes(1, xs_shape.elements()), &lx);
        let x = view(dtype(signs[0]), &xs, lx);
        let w = Tensor::from_bytes(dtype(signs[1]), w_shape, &bytes(2, w_shape.elements())).unwrap();
        let bias: Vec<i32> = (0..o as i32).map(|i| i * 331 - 2000).collect();
        let bias = extras[0].then(|| Tensor::from_slice(&[o], &bias).unwrap());

        let y_dtype = op.infer(&[
            Some(saltica_models::graph::Fact { dtype: x.dtype(), shape: xs_shape, value: None }),
            Some(saltica_models::graph::Fact::of(&w)),
        ]).unwrap()[0].dtype;
        let run = |f: &mut dyn FnMut(&mut ViewMut<'_>)| -> Vec<u8> {
            if y_dtype == DType::F32 {
                let mut y = vec![0f32; ly.span()];
                f(&mut ViewMut::of_slice(&mut y, ly).unwrap());
                bytemuck::cast_slice(&y).to_vec()
            } else {
                let mut y = vec![0u8; ly.span()];
                if y_dtype == DType::I8 {
                    f(&mut ViewMut::of_slice::<i8>(bytemuck::cast_slice_mut(&mut y), ly).unwrap());
                } else {
                    f(&mut ViewMut::of_slice(&mut y, ly).unwrap());
                }
                y
            }
        };
        let want = run(&mut |y| {
            op.run(&[Some(x), Some(w.view()), bias.as_ref().map(|b| b.view())], std::slice::from_mut(&mut y.reborrow()))
                .unwrap()
        });
        for isa in Isa::available() {
            let packed = PackedQuantConv::new(isa, &op, x.dtype(), &w, bias.as_ref()).unwrap();
            for threads in [1, 3] {
                let pool = Pool::new(threads).unwrap();
                let mut scratch = vec![0; packed.scratch_bytes(&lx, threads)];
                let got = run(&mut |y| packed.run(&pool, &x, y, &mut scratch).unwrap());
                // Sums of zeros may differ in the sign of zero only where the definition leaves it open: nowhere.
                prop_assert!(got == want, "{} with {} threads", isa, threads);
            }
        }
    }

    #[test]
    fn sums_are_exact_whatever_zero_point_comes_with_a_run(
        channels in prop_oneof![
            (1usize..5, 1usize..40).prop_map(|(c, o)| (1usize, c, o)),
            (1usize..5, 1usize..40).prop_map(|(c, o)| (1usize, c * 4, o)),
            (2usize..4, 1usize..9, 1usize..9),
        ],
        kernel in prop_oneof![Just([1usize, 1]), Just([3, 3]), [1usize..8, 1..8]],
        stride in [1usize..3, 1..3], pads in [0usize..3, 0..3, 0..3, 0..3], size in [1usize..3, 1..12, 1..24],
        signs in any::<[bool; 2]>(), zeros in [0i32..256, 0..256], w_zeros in 0usize..3, planar in any::<bool>(),
        seeds in any::<[u64; 2]>(),
    ) {
        let (group, ic, oc) = channels;
        let window = Window { kernel, stride, dilation: [1, 1], pads, auto_pad: AutoPad::Explicit, ceil_mode: false };
        let Ok([oh, ow]) = window.output([size[1], size[2]]) else { return Ok(()) };
        let dtype = |signed: bool| if signed { DType::I8 } else { DType::U8 };
        let (o, op) = (group * oc, ConvInteger { window, group });
        let x_shape = Shape::new(&[size[0], group * ic, size[1], size[2]]).unwrap();
        let w_shape = Shape::new(&[o, ic, kernel[0], kernel[1]]).unwrap();
        let y_shape = Shape::new(&[size[0], o, oh, ow]).unwrap();
        let lx = if planar { Layout::contiguous(x_shape) } else { layouts(x_shape, seeds[0]) };
        let ly = layouts(y_shape, seeds[1]);
        let xs = spread_bytes(&bytes(1, x_shape.elements()), &lx);
        let x = view(dtype(signs[0]), &xs, lx);
        let w = Tensor::from_bytes(dtype(signs[1]), w_shape, &bytes(2, w_shape.elements())).unwrap();
        let x_zero = zeros[0] as u8;
        let x_zero_t = Tensor::from_bytes(dtype(signs[0]), Shape::scalar(), &[x_zero]).unwrap();
        let w_zero_bytes: Vec<u8> = (0..if w_zeros == 1 { 1 } else { o }).map(|i| zeros[1] as u8 ^ i as u8).collect();
        let w_zero = (w_zeros > 0).then(|| {
            Tensor::from_bytes(dtype(signs[1]), Shape::new(&[w_zero_bytes.len()]).unwrap(), &w_zero_bytes).unwrap()
        });
        let mut want = vec![0i32; ly.span()];
        let inputs = [Some(x), Some(w.view()), Some(x_zero_t.view()), w_zero.as_ref().map(|z| z.view())];
        op.run(&inputs, &mut [ViewMut::of_slice(&mut want, ly).unwrap()]).unwrap();
        let zero = if signs[0] { x_zero as i8 as i32 } else { x_zero as i32 };
        for isa in Isa::available() {
            let packed = PackedConvInteger::new(isa, &op, x.dtype(), &w, w_zero.as_ref()).unwrap();
            for threads in [1, 3] {
                let pool = Pool::new(threads).unwrap();
                let mut scratch = vec![0; packed.scratch_bytes(&lx, threads)];
                let mut got = vec![0i32; ly.span()];
                packed.run(&pool, &x, zero, &mut ViewMut::of_slice(&mut got, ly).unwrap(), &mut scratch).unwrap();
                prop_assert!(got == want, "{} with {} threads", isa, threads);
            }
        }
    }
}
