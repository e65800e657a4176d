//! What the kernels' tests share.

use proptest::prelude::*;
use saltica_tensor::{Layout, Shape};

/// Deterministic numbers in -1..1.
pub(crate) fn noise(seed: u64, len: usize) -> Vec<f32> {
    (0..len as u64)
        .map(|i| {
            let mut z = (seed << 32).wrapping_add(i).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z ^= z >> 31;
            (z >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        })
        .collect()
}

/// A layout without overlap: dims in an order that `seed` picks, now and then with gaps.
pub(crate) fn layouts(shape: Shape, seed: u64) -> Layout {
    let rank = shape.rank();
    let mut order: Vec<usize> = (0..rank).collect();
    let mut z = seed;
    for i in (1..rank).rev() {
        order.swap(i, (z % (i as u64 + 1)) as usize);
        z /= 7;
    }
    if seed.is_multiple_of(3) {
        order.sort();
    }
    let mut strides = vec![0; rank];
    let mut s = if seed.is_multiple_of(5) { 2 } else { 1 };
    for &d in order.iter().rev() {
        strides[d] = s;
        s = s * shape[d] + if (z >> d).is_multiple_of(4) { 3 } else { 0 };
    }
    Layout::strided(shape, &strides).unwrap()
}

/// The values in a buffer of exactly the layout's span, so that a read past it meets the allocation's end; NaN between.
pub(crate) fn spread(values: &[f32], layout: &Layout) -> Vec<f32> {
    let mut out = vec![f32::NAN; layout.span()];
    for (i, index) in layout.shape().indices().enumerate() {
        out[layout.offset(&index)] = values[i];
    }
    out
}

/// |got - want| <= relative * max(|want|, 1), and NaN where NaN is.
pub(crate) fn close(got: &[f32], want: &[f32], relative: f32) -> std::result::Result<(), TestCaseError> {
    prop_assert_eq!(got.len(), want.len());
    for (i, (&g, &w)) in got.iter().zip(want).enumerate() {
        let same = g == w || (g.is_nan() && w.is_nan()) || (g - w).abs() <= relative * w.abs().max(1.0);
        prop_assert!(same, "element {}: {} found, {} expected", i, g, w);
    }
    Ok(())
}
