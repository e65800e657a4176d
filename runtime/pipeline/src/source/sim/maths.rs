//! Vectors, angles and hashes that give the same bits on every machine.
//!
//! Only IEEE `+ - * /` and square root are used on floats, which every target rounds alike. Angles are in turns (1.0 is
//! a full circle), so that range reduction is exact.

use std::ops::{Add, Mul, Sub};

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct V3 {
    pub(super) x: f32,
    pub(super) y: f32,
    pub(super) z: f32,
}

pub(super) const fn v3(x: f32, y: f32, z: f32) -> V3 {
    V3 { x, y, z }
}

impl Add for V3 {
    type Output = V3;
    fn add(self, o: V3) -> V3 {
        v3(self.x + o.x, self.y + o.y, self.z + o.z)
    }
}

impl Sub for V3 {
    type Output = V3;
    fn sub(self, o: V3) -> V3 {
        v3(self.x - o.x, self.y - o.y, self.z - o.z)
    }
}

impl Mul<f32> for V3 {
    type Output = V3;
    fn mul(self, k: f32) -> V3 {
        v3(self.x * k, self.y * k, self.z * k)
    }
}

impl V3 {
    pub(super) fn dot(self, o: V3) -> f32 {
        self.x * o.x + self.y * o.y + self.z * o.z
    }

    pub(super) fn cross(self, o: V3) -> V3 {
        v3(self.y * o.z - self.z * o.y, self.z * o.x - self.x * o.z, self.x * o.y - self.y * o.x)
    }

    /// The unit vector, or the vector itself where it has no length.
    pub(super) fn unit(self) -> V3 {
        let n = self.dot(self).sqrt();
        if n > 1e-12 { self * (1.0 / n) } else { self }
    }

    pub(super) fn lerp(self, o: V3, t: f32) -> V3 {
        self + (o - self) * t
    }
}

/// sin(2 pi t). Odd polynomial on the quarter turn, error below 4e-6.
pub(super) fn sin_turns(t: f32) -> f32 {
    let mut u = t - floor(t + 0.5);
    if u > 0.25 {
        u = 0.5 - u;
    } else if u < -0.25 {
        u = -0.5 - u;
    }
    let a = u * std::f32::consts::TAU;
    let s = a * a;
    a * (1.0 - s * (0.166_666_55 - s * (0.008_333_02 - s * (0.000_198_07 - s * 2.6e-6))))
}

/// cos(2 pi t).
pub(super) fn cos_turns(t: f32) -> f32 {
    sin_turns(t + 0.25)
}

/// Largest integer not above `x`, for |x| < 2^31.
pub(super) fn floor(x: f32) -> f32 {
    let i = x as i32 as f32;
    if i > x { i - 1.0 } else { i }
}

pub(super) fn fract(x: f32) -> f32 {
    x - floor(x)
}

pub(super) fn lerp(a: f32, b: f32, t: f32) -> f32 {
    a + (b - a) * t
}

/// 0 below `a`, 1 above `b`, smooth between.
pub(super) fn smoothstep(a: f32, b: f32, x: f32) -> f32 {
    let t = ((x - a) / (b - a)).clamp(0.0, 1.0);
    t * t * (3.0 - 2.0 * t)
}

/// Mixes 64 bits (finaliser of SplitMix64, Steele et al. 2014).
pub(super) fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A hash of lattice coordinates, in [0, 1).
pub(super) fn hash2(x: i32, y: i32, seed: u32) -> f32 {
    let mut h = (x as u32).wrapping_mul(0x85eb_ca6b)
        ^ (y as u32).wrapping_mul(0xc2b2_ae35)
        ^ seed.wrapping_mul(0x27d4_eb2f);
    h ^= h >> 15;
    h = h.wrapping_mul(0x2c1b_3c6d);
    h ^= h >> 12;
    h = h.wrapping_mul(0x297a_2d39);
    h ^= h >> 15;
    (h >> 8) as f32 * (1.0 / 16_777_216.0)
}

/// Value noise in [0, 1): smooth between hashed lattice points.
pub(super) fn noise2(x: f32, y: f32, seed: u32) -> f32 {
    let (fx, fy) = (floor(x), floor(y));
    let (ix, iy) = (fx as i32, fy as i32);
    let (u, v) = (x - fx, y - fy);
    let (u, v) = (u * u * (3.0 - 2.0 * u), v * v * (3.0 - 2.0 * v));
    let a = lerp(hash2(ix, iy, seed), hash2(ix + 1, iy, seed), u);
    let b = lerp(hash2(ix, iy + 1, seed), hash2(ix + 1, iy + 1, seed), u);
    lerp(a, b, v)
}

/// Several octaves of [`noise2`], in [0, 1).
pub(super) fn fbm(x: f32, y: f32, seed: u32, octaves: u32) -> f32 {
    let (mut sum, mut amp, mut total, mut k) = (0.0, 1.0, 0.0, 1.0);
    for o in 0..octaves {
        sum += amp * noise2(x * k, y * k, seed.wrapping_add(o));
        total += amp;
        amp *= 0.5;
        k *= 2.03;
    }
    sum / total
}

/// A small counter-based generator: the same key gives the same sequence.
#[derive(Clone)]
pub(super) struct Rng(u64);

impl Rng {
    pub(super) fn new(key: u64) -> Rng {
        Rng(mix(key))
    }

    /// A generator for a named part of `key`.
    pub(super) fn keyed(key: u64, a: u64, b: u64) -> Rng {
        Rng(
            mix(mix(mix(key) ^ a.wrapping_mul(0xa24b_aed4_963e_e407)) ^ b.wrapping_mul(0x9fb2_1c65_1e98_df25)),
        )
    }

    pub(super) fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        (mix(self.0) >> 32) as u32
    }

    /// Uniform in [0, 1).
    pub(super) fn unit(&mut self) -> f32 {
        (self.next() >> 8) as f32 * (1.0 / 16_777_216.0)
    }

    pub(super) fn range(&mut self, a: f32, b: f32) -> f32 {
        lerp(a, b, self.unit())
    }

    pub(super) fn below(&mut self, n: u32) -> u32 {
        ((u64::from(self.next()) * u64::from(n)) >> 32) as u32
    }

    pub(super) fn chance(&mut self, p: f32) -> bool {
        self.unit() < p
    }

    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u32) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sine_is_close_to_the_library() {
        for i in -4000..4000 {
            let t = i as f32 * 0.001_37;
            let want = (f64::from(t) * std::f64::consts::TAU).sin();
            assert!((f64::from(sin_turns(t)) - want).abs() < 4e-6, "{t}: {} {want}", sin_turns(t));
        }
    }

    #[test]
    fn floor_rounds_down() {
        for x in [-2.5f32, -2.0, -0.1, 0.0, 0.9, 3.0, 1e6 + 0.5] {
            assert_eq!(floor(x), x.floor());
        }
    }
}
