//! Activations on vectors, each as a type, so that a loop is compiled around each and the choice is made outside of it.

use crate::simd::Simd;

/// A pointwise function of vectors.
pub(crate) trait Pointwise: Copy + Sync {
    /// The function; implementations are `#[inline(always)]`.
    fn eval<S: Simd>(self, s: S, x: S::F) -> S::F;
}

/// e^x to within 2 ulp for |x| <= 87; beyond, e^±87. NaN stays.
///
/// x = n ln 2 + r with |r| <= ln 2 / 2 (ln 2 in two parts, so that r is exact enough), then a polynomial for e^r that was
/// fitted to the relative error (9.2e-8 at most).
#[inline(always)]
pub(crate) fn exp<S: Simd>(s: S, x: S::F) -> S::F {
    exp_inside(s, s.min(s.splat(87.0), s.max(s.splat(-87.0), x)))
}

/// [`exp`] for what is known to lie in -87..=87.
#[inline(always)]
fn exp_inside<S: Simd>(s: S, x: S::F) -> S::F {
    let n = s.round(s.mul(x, s.splat(std::f32::consts::LOG2_E)));
    let r = s.fnma(n, s.splat(0.693_145_75), x);
    let r = s.fnma(n, s.splat(1.428_606_8e-6), r);
    let mut p = s.splat(0.008_290_271);
    for c in [0.041_898_16, 0.166_676_39, 0.499_991_48, 0.999_999_7, 1.0] {
        p = s.fma(p, r, s.splat(c));
    }
    s.scale2(p, n)
}

/// 1 / (1 + e^-x)
#[inline(always)]
pub(crate) fn sigmoid<S: Simd>(s: S, x: S::F) -> S::F {
    let e = exp(s, s.sub(s.splat(0.0), x));
    s.recip(s.add(s.splat(1.0), e))
}

/// tanh(x): a rational-free polynomial near zero (Cephes' `tanhf`), 1 - 2 / (e^2x + 1) elsewhere.
#[inline(always)]
pub(crate) fn tanh<S: Simd>(s: S, x: S::F) -> S::F {
    let z = s.mul(x, x);
    let mut p = s.splat(-5.704_988_7e-3);
    for c in [2.063_909e-2, -5.373_971_6e-2, 1.333_144_2e-1, -3.333_328e-1] {
        p = s.fma(p, z, s.splat(c));
    }
    let small = s.fma(s.mul(p, z), x, x);
    let a = s.min(s.splat(20.0), s.abs(x));
    let e = exp(s, s.add(a, a));
    let large = s.fnma(s.splat(2.0), s.recip(s.add(e, s.splat(1.0))), s.splat(1.0));
    let large = s.where_lt(x, s.splat(0.0), s.sub(s.splat(0.0), large), large);
    s.where_lt(s.splat(0.625), s.abs(x), large, small)
}

macro_rules! pointwise {
    ($($(#[$doc:meta])* $name:ident$(($($field:ident: $t:ty),*))? = |$s:ident, $x:ident| $e:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(crate) struct $name$(($(pub(crate) $t),*))?;

        impl Pointwise for $name {
            #[inline(always)]
            fn eval<S: Simd>(self, $s: S, $x: S::F) -> S::F {
                $(let $name($($field),*) = self;)?
                $e
            }
        }
    )*};
}

pointwise! {
    /// x
    Identity = |_s, x| x;
    /// max(x, 0); x comes second because that is what stays where it is NaN.
    Relu = |s, x| s.max(s.splat(0.0), x);
    /// x if x >= 0, else slope * x
    LeakyRelu(slope: f32) = |s, x| s.where_lt(x, s.splat(0.0), s.mul(x, s.splat(slope)), x);
    /// min(max(x, lo), hi); NaN stays, as above.
    Clip(lo: f32, hi: f32) = |s, x| s.min(s.splat(hi), s.max(s.splat(lo), x));
    /// 1 / (1 + e^-x)
    Sigmoid = |s, x| sigmoid(s, x);
    /// x * sigmoid(x)
    Silu = |s, x| {
        // Below -87 the product would be a large x times the smallest sigmoid instead of nothing.
        let x = s.max(s.splat(-87.0), x);
        let e = exp_inside(s, s.sub(s.splat(0.0), s.min(s.splat(87.0), x)));
        s.mul(x, s.recip(s.add(s.splat(1.0), e)))
    };
    /// min(max(alpha * x + beta, 0), 1)
    HardSigmoid(alpha: f32, beta: f32) = |s, x| {
        let y = s.add(s.mul(s.splat(alpha), x), s.splat(beta));
        s.min(s.splat(1.0), s.max(s.splat(0.0), y))
    };
    /// x * min(max(x / 6 + 0.5, 0), 1)
    HardSwish = |s, x| {
        // A true division: quantized graphs count on the last bit.
        let y = s.add(s.div(x, s.splat(6.0)), s.splat(0.5));
        s.mul(x, s.min(s.splat(1.0), s.max(s.splat(0.0), y)))
    };
    /// tanh(x)
    Tanh = |s, x| tanh(s, x);
    /// e^x
    Exp = |s, x| {
        // Outside of what `exp` covers the result is 0 or infinite, or nearly so.
        let e = exp(s, x);
        let e = s.where_lt(s.splat(87.0), x, s.mul(e, exp(s, s.sub(x, s.splat(87.0)))), e);
        s.where_lt(x, s.splat(-87.0), s.mul(e, exp(s, s.add(x, s.splat(87.0)))), e)
    };
    /// The square root.
    Sqrt = |s, x| s.sqrt(x);
    /// The largest integer not above x.
    Floor = |s, x| s.floor(x);
    /// The nearest integer, ties to even.
    Round = |s, x| s.round(x);
    /// -x
    Neg = |s, x| s.mul(x, s.splat(-1.0));
    /// |x|
    Abs = |s, x| s.abs(x);
    /// 1 / x
    Reciprocal = |s, x| s.div(s.splat(1.0), x);
}

/// Evaluates `$body` with `$f` bound to the [`Pointwise`] that `$act` names.
macro_rules! with_activation {
    ($act:expr, $f:ident => $body:expr) => {
        match $act {
            saltica_models::graph::Activation::None => {
                let $f = $crate::act::Identity;
                $body
            }
            saltica_models::graph::Activation::Relu => {
                let $f = $crate::act::Relu;
                $body
            }
            saltica_models::graph::Activation::LeakyRelu(a) => {
                let $f = $crate::act::LeakyRelu(a);
                $body
            }
            saltica_models::graph::Activation::Clip(a, b) => {
                let $f = $crate::act::Clip(a, b);
                $body
            }
            saltica_models::graph::Activation::Sigmoid => {
                let $f = $crate::act::Sigmoid;
                $body
            }
            saltica_models::graph::Activation::Silu => {
                let $f = $crate::act::Silu;
                $body
            }
            saltica_models::graph::Activation::HardSigmoid(a, b) => {
                let $f = $crate::act::HardSigmoid(a, b);
                $body
            }
            saltica_models::graph::Activation::HardSwish => {
                let $f = $crate::act::HardSwish;
                $body
            }
            saltica_models::graph::Activation::Tanh => {
                let $f = $crate::act::Tanh;
                $body
            }
        }
    };
}
pub(crate) use with_activation;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Isa;
    use crate::simd::{Kernel, dispatch};
    use saltica_models::graph::Activation;

    struct Apply<'a>(Activation, &'a mut [f32]);
    impl Kernel for Apply<'_> {
        type Out = ();
        #[inline(always)]
        fn run<S: Simd>(self, s: S) {
            with_activation!(self.0, f => for c in self.1.chunks_mut(S::LANES) {
                // SAFETY: the chunk has this many floats.
                unsafe {
                    let x = s.load_n(c.as_ptr(), c.len());
                    s.store_n(c.as_mut_ptr(), f.eval(s, x), c.len());
                }
            })
        }
    }

    #[test]
    fn activations_match_their_reference_on_every_isa() {
        let acts = [
            Activation::None,
            Activation::Relu,
            Activation::LeakyRelu(0.1),
            Activation::Clip(0.0, 6.0),
            Activation::Sigmoid,
            Activation::Silu,
            Activation::HardSigmoid(0.2, 0.5),
            Activation::HardSwish,
            Activation::Tanh,
        ];
        let mut xs: Vec<f32> = (-40_000..=40_000).map(|i| i as f32 * 0.0025).collect();
        xs.extend((-60..60).map(|e| 1.37 * 2f32.powi(e)));
        xs.extend((-60..60).map(|e| -1.37 * 2f32.powi(e)));
        xs.extend([0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN]);
        for isa in Isa::available() {
            for act in acts {
                let mut ys = xs.clone();
                dispatch(isa, Apply(act, &mut ys));
                for (&x, &y) in xs.iter().zip(&ys) {
                    let want = exact(act, x as f64);
                    // A few ulp; sigmoid saturates at e^-87, where silu has long no significant value.
                    let ok = (y as f64 - want).abs() <= 4e-7 * want.abs() + 1e-34 || y as f64 == want;
                    // The sum inside the hard functions cancels near their lower edge: half an ulp of 0.5 stays, times |x|.
                    let hard = matches!(act, Activation::HardSigmoid(..) | Activation::HardSwish);
                    let ok = ok || (hard && (y as f64 - want).abs() <= 1.2e-7 * x.abs().max(1.0) as f64);
                    let tail = x < -80.0 && y.abs() < 1e-30;
                    assert!(ok || tail || (want.is_nan() && y.is_nan()), "{isa} {act}({x}) = {y}, {want}");
                }
                let mut nan = [f32::NAN; 5];
                dispatch(isa, Apply(act, &mut nan));
                let want = act.apply(f32::NAN);
                assert!(
                    nan.iter().all(|n| n.is_nan() == want.is_nan()),
                    "{isa} {act}(NaN) = {nan:?}, {want}"
                );
            }
        }
    }

    /// The definition in f64.
    fn exact(act: Activation, x: f64) -> f64 {
        let sigmoid = 1.0 / (1.0 + (-x).exp());
        match act {
            Activation::Sigmoid => sigmoid,
            Activation::Silu if x == f64::NEG_INFINITY => 0.0,
            Activation::Silu => x * sigmoid,
            Activation::Tanh => x.tanh(),
            Activation::HardSwish => x * (x / 6.0 + 0.5).clamp(0.0, 1.0),
            Activation::HardSigmoid(a, b) => (a as f64 * x + b as f64).clamp(0.0, 1.0),
            other => other.apply(x as f32) as f64,
        }
    }
}
