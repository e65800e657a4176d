//! Wheels and lamps that vehicles share.

use super::super::maths::v3;
use super::super::mesh::{Mat, Mesh};

/// Materials of a wheel.
#[derive(Clone, Copy)]
pub(super) struct WheelMats {
    pub(super) tyre: Mat,
    pub(super) rim: Mat,
    pub(super) gap: Mat,
}

impl WheelMats {
    pub(super) fn new(m: &mut Mesh, rim: [u8; 3]) -> WheelMats {
        WheelMats { tyre: m.mat([30, 30, 32], 0.0), rim: m.mat(rim, 0.15), gap: m.mat([48, 48, 50], 0.02) }
    }
}

/// A wheel of `radius` and `width` whose outer face lies at `x`, on the side of its sign, with an arch in the body.
pub(super) fn wheel(
    m: &mut Mesh,
    x: f32,
    z: f32,
    radius: f32,
    width: f32,
    turn: f32,
    mats: WheelMats,
    arch: Option<Mat>,
) {
    let out = if x < 0.0 { -1.0 } else { 1.0 };
    let c = v3(x, radius, z);
    if let Some(dark) = arch {
        // The opening in the body: a dark disc behind the wheel, cut by the ground side of the body.
        let r = radius * 1.17;
        m.wheel_disc(c + v3(-0.012 * out, radius * 0.06, 0.0), r, out, 0.0, 14, [dark, dark]);
    }
    let segs = (m.segs * 3 / 2).clamp(10, 20);
    let xs = [x - width * out, x - width * 0.93 * out, x - 0.02 * out, x];
    let rs = [0.90, 1.0, 1.0, 0.90];
    m.grid((4, segs), true, mats.tyre, |i, j| {
        let t = j as f32 / segs as f32;
        let (s, k) = (super::super::maths::sin_turns(t), super::super::maths::cos_turns(t));
        v3(xs[i], radius + radius * rs[i] * s, z + radius * rs[i] * k)
    });
    m.wheel_disc(c + v3(0.001 * out, 0.0, 0.0), radius * 0.91, out, 0.0, 10, [mats.tyre, mats.tyre]);
    m.wheel_disc(c + v3(0.006 * out, 0.0, 0.0), radius * 0.66, out, turn, 10, [mats.rim, mats.gap]);
    m.wheel_disc(c + v3(0.010 * out, 0.0, 0.0), radius * 0.24, out, turn, 6, [mats.rim, mats.rim]);
}

/// Colours of paint seen on the road: mostly greys, some strong.
pub(super) const PAINTS: [[u8; 3]; 14] = [
    [232, 233, 234],
    [196, 199, 203],
    [142, 146, 151],
    [92, 96, 102],
    [44, 46, 50],
    [26, 27, 31],
    [168, 30, 34],
    [120, 22, 30],
    [32, 66, 130],
    [58, 104, 160],
    [44, 84, 66],
    [206, 176, 60],
    [150, 130, 104],
    [196, 88, 36],
];
