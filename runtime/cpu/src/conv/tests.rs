use super::*;
use crate::Pool;
use crate::testing::{noise, spread};
use proptest::prelude::*;
use saltica_models::graph::ops::{Operator, window::AutoPad};
use saltica_tensor::Shape;

#[derive(Clone, Debug)]
struct Setup {
    conv: Conv,
    x: [usize; 4],
    o: usize,
    bias: bool,
    /// Channels beside the view's own in its buffer, for x, residual and y; None: NCHW.
    wider: [Option<usize>; 3],
}

fn layout(dims: [usize; 4], wider: Option<usize>) -> Layout {
    let shape = Shape::new(&dims).unwrap();
    match wider {
        None => Layout::contiguous(shape),
        Some(extra) => Layout::channels_last(shape, dims[1] + extra).unwrap(),
    }
}

/// Runs `s` on `isa` with `threads`; the output's buffer (NaN between the view's elements).
fn run(s: &Setup, isa: Isa, threads: usize) -> (Vec<f32>, Layout, Vec<f32>, f32) {
    let [n, c, h, w] = s.x;
    let window = s.conv.window;
    let [oh, ow] = window.output([h, w]).unwrap();
    let [kh, kw] = window.kernel;
    let icg = c / s.conv.group;
    let weights = Tensor::from_slice(&[s.o, icg, kh, kw], &noise(1, s.o * icg * kh * kw)).unwrap();
    let bias = s.bias.then(|| Tensor::from_slice(&[s.o], &noise(2, s.o)).unwrap());
    let y_dims = [n, s.o, oh, ow];
    let (xl, rl, yl) = (layout(s.x, s.wider[0]), layout(y_dims, s.wider[1]), layout(y_dims, s.wider[2]));
    let xs = spread(&noise(3, n * c * h * w), &xl);
    let rs = spread(&noise(4, n * s.o * oh * ow), &rl);
    let x = View::of_slice(&xs, xl).unwrap();
    let r = (s.conv.residual != Residual::None).then(|| View::of_slice(&rs, rl).unwrap());
    let pool = Pool::new(threads).unwrap();
    let packed = PackedConv::new(isa, &s.conv, &weights, bias.as_ref()).unwrap();
    let mut scratch = vec![0u8; packed.scratch_bytes(&xl, threads)];
    let mut ys = vec![f32::NAN; yl.span()];
    packed.run(&pool, &x, r.as_ref(), &mut ViewMut::of_slice(&mut ys, yl).unwrap(), &mut scratch).unwrap();
    // Reference, only for one thread: the others are compared with that.
    let mut want = vec![f32::NAN; yl.span()];
    if threads == 1 {
        let mut out = [ViewMut::of_slice(&mut want, yl).unwrap()];
        let inputs = [Some(x), Some(weights.view()), bias.as_ref().map(|b| b.view()), r];
        s.conv.run(&inputs, &mut out).unwrap();
    }
    (ys, yl, want, (icg * kh * kw) as f32)
}

fn check(s: &Setup, isa: Isa) -> std::result::Result<(), TestCaseError> {
    let (one, yl, want, terms) = run(s, isa, 1);
    for i in 0..one.len() {
        prop_assert_eq!(one[i].is_nan(), want[i].is_nan(), "{} element {} of {:?}", isa, i, yl);
        // Sums of `terms` products of numbers below 1: rounding grows with the terms' count.
        let tolerance = 1e-6 * (4.0 + terms.sqrt()) * want[i].abs().max(terms.sqrt());
        prop_assert!(
            one[i].is_nan() || (one[i] - want[i]).abs() <= tolerance,
            "{} element {}: {} found, {} expected; {:?}",
            isa,
            i,
            one[i],
            want[i],
            s
        );
    }
    for threads in [2, 3] {
        let (many, ..) = run(s, isa, threads);
        let same = one.iter().zip(&many).all(|(a, b)| a.to_bits() == b.to_bits());
        prop_assert!(same, "{} with {} threads differs", isa, threads);
    }
    Ok(())
}

fn window() -> impl Strategy<Value = Window> {
    let kernel = prop_oneof![
        Just([1usize, 1]),
        Just([3, 3]),
        Just([5, 5]),
        Just([6, 6]),
        (1usize..=4, 1usize..=7).prop_map(|(a, b)| [a, b])
    ];
    (kernel, [1usize..=3, 1..=3], [1usize..=2, 1..=2], [0usize..=3, 0..=3, 0..=3, 0..=3]).prop_map(
        |(kernel, stride, dilation, pads)| Window {
            kernel,
            stride,
            dilation,
            pads,
            auto_pad: AutoPad::Explicit,
            ceil_mode: false,
        },
    )
}

fn activation() -> impl Strategy<Value = Activation> {
    prop_oneof![
        Just(Activation::None),
        Just(Activation::Silu),
        Just(Activation::Relu),
        Just(Activation::LeakyRelu(0.1)),
        Just(Activation::HardSwish),
        Just(Activation::Sigmoid),
    ]
}

fn residual() -> impl Strategy<Value = Residual> {
    prop_oneof![Just(Residual::None), Just(Residual::BeforeActivation), Just(Residual::AfterActivation)]
}

fn wider() -> impl Strategy<Value = Option<usize>> {
    prop_oneof![Just(None), Just(Some(0)), (1usize..20).prop_map(Some)]
}

fn setup() -> impl Strategy<Value = Setup> {
    let channels = prop_oneof![
        // One group; depthwise; groups of several channels.
        (1usize..70, 1usize..70).prop_map(|(c, o)| (1, c, o)),
        (2usize..70).prop_map(|c| (c, c, c)),
        (2usize..5, 1usize..20, 1usize..20).prop_map(|(g, c, o)| (g, g * c, g * o)),
    ];
    (
        window(),
        channels,
        (1usize..3, 1usize..14, 1usize..20),
        activation(),
        residual(),
        any::<bool>(),
        [wider(), wider(), wider()],
    )
        .prop_filter_map(
            "the window fits",
            |(window, (group, c, o), (n, h, w), activation, residual, bias, wider)| {
                window.output([h, w]).ok()?;
                let conv = Conv { window, group, activation, residual };
                Some(Setup { conv, x: [n, c, h, w], o, bias, wider })
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn random_convolutions_match_the_reference_on_every_isa_and_thread_count(s in setup()) {
        for isa in Isa::available() {
            check(&s, isa)?;
        }
    }

    #[test]
    fn a_batch_is_its_images_bit_for_bit(s in setup()) {
        for isa in Isa::available() {
            let batch = Setup { x: [3, s.x[1], s.x[2], s.x[3]], ..s.clone() };
            let image = Setup { x: [1, s.x[1], s.x[2], s.x[3]], ..s.clone() };
            // The first image's numbers are the first numbers of the batch in NCHW order, which `noise` fills.
            let (all, all_layout, ..) = run(&batch, isa, 2);
            let (first, first_layout, ..) = run(&image, isa, 1);
            for index in first_layout.shape().indices() {
                prop_assert_eq!(
                    all[all_layout.offset(&index)].to_bits(),
                    first[first_layout.offset(&index)].to_bits()
                );
            }
        }
    }
}

#[test]
fn the_op_cases_pass_on_every_isa() {
    use saltica_models::graph::Op;
    let pool = Pool::new(2).unwrap();
    for isa in Isa::available() {
        let mut count = 0;
        for case in <Conv as Operator>::cases() {
            #[allow(irrefutable_let_patterns)] // more ops than one
            let Op::Conv(conv) = &case.op else { continue };
            let want = &case.expected[0];
            if want.dtype() != DType::F32 {
                continue;
            }
            let inputs: Vec<_> = case.inputs.iter().map(Option::as_ref).collect();
            let get = |i: usize| inputs.get(i).copied().flatten();
            let packed = PackedConv::new(isa, conv, get(1).unwrap(), get(2)).unwrap();
            let x = get(0).unwrap().view();
            let mut y = Tensor::zeros(DType::F32, *want.shape()).unwrap();
            let mut scratch = vec![0; packed.scratch_bytes(x.layout(), 2)];
            let residual = get(3).map(|t| t.view());
            packed.run(&pool, &x, residual.as_ref(), &mut y.view_mut().unwrap(), &mut scratch).unwrap();
            saltica_models::graph::ops::compare(&y.view(), want, case.tolerance).unwrap();
            count += 1;
        }
        assert!(count > 0);
    }
}

#[test]
fn what_does_not_fit_is_an_error() {
    let window = Window {
        kernel: [3, 3],
        stride: [1, 1],
        dilation: [1, 1],
        pads: [1; 4],
        auto_pad: AutoPad::Explicit,
        ceil_mode: false,
    };
    let conv = Conv { window, group: 1, activation: Activation::None, residual: Residual::None };
    let weights = Tensor::from_slice(&[4, 2, 3, 3], &[0f32; 72]).unwrap();
    let short = Tensor::from_slice(&[3], &[0f32; 3]).unwrap();
    let isa = Isa::best();
    assert!(PackedConv::new(isa, &conv, &weights, Some(&short)).is_err());
    assert!(PackedConv::new(isa, &Conv { group: 3, ..conv.clone() }, &weights, None).is_err());
    let packed = PackedConv::new(isa, &conv, &weights, None).unwrap();
    assert!(packed.bytes() >= 4 * (72 + 4));
    assert!(packed.label().starts_with("conv "), "{}", packed.label());
    let pool = Pool::new(1).unwrap();
    let x = Tensor::zeros(DType::F32, Shape::new(&[1, 2, 5, 5]).unwrap()).unwrap();
    let mut y = Tensor::zeros(DType::F32, Shape::new(&[1, 4, 5, 4]).unwrap()).unwrap();
    let mut scratch = vec![0; packed.scratch_bytes(x.view().layout(), 1)];
    let e = packed.run(&pool, &x.view(), None, &mut y.view_mut().unwrap(), &mut scratch).unwrap_err();
    assert!(e.to_string().contains("[1, 4, 5, 5]"), "{e}");
    let mut y = Tensor::zeros(DType::F32, Shape::new(&[1, 4, 5, 5]).unwrap()).unwrap();
    assert!(packed.run(&pool, &x.view(), None, &mut y.view_mut().unwrap(), &mut []).is_err());
}
