//! The motion of a box: centre and size, each with a constant velocity.
//!
//! The four coordinates are measured directly and disturbed independently, so the eight-state Kalman filter of SORT and
//! ByteTrack falls apart into four of two states (position and velocity), which have closed forms. Noise is continuous
//! (white acceleration): a prediction over one long step is the same as over many short ones, so that frame rates and
//! dropped frames need no care.

/// One coordinate: mean and covariance of position and velocity.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    pub(super) position: f64,
    pub(super) velocity: f64,
    pp: f64,
    pv: f64,
    vv: f64,
}

impl Axis {
    /// First seen at `position`, with standard deviations of it and of the velocity, which is thought to be 0.
    fn new(position: f64, deviation: f64, speed: f64) -> Axis {
        Axis { position, velocity: 0.0, pp: deviation * deviation, pv: 0.0, vv: speed * speed }
    }

    /// Lets `dt` seconds pass under white acceleration of spectral density `q`.
    fn predict(&mut self, dt: f64, q: f64) {
        self.position += self.velocity * dt;
        self.pp += dt * (2.0 * self.pv + dt * (self.vv + q * dt / 3.0));
        self.pv += dt * (self.vv + q * dt / 2.0);
        self.vv += q * dt;
    }

    /// Takes in a measurement of variance `r`.
    fn correct(&mut self, measured: f64, r: f64) {
        let s = 1.0 / (self.pp + r);
        let (gain_p, gain_v) = (self.pp * s, self.pv * s);
        let error = measured - self.position;
        self.position += gain_p * error;
        self.velocity += gain_v * error;
        self.vv -= gain_v * self.pv;
        self.pv -= gain_p * self.pv;
        self.pp -= gain_p * self.pp;
    }
}

/// How boxes move and how detectors err, in sizes of the box (square root of its area) and seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Noise {
    /// Standard deviation of a measured coordinate.
    pub(super) measured: f64,
    /// Standard deviation of the velocity of what has been seen once, per second.
    pub(super) speed: f64,
    /// How much larger it is for an observation of score 0.
    pub(super) doubt: f64,
    /// Seconds in which a velocity fades to 1/e out of sight.
    pub(super) coast: f64,
    /// Root of the spectral density of acceleration, per second to the power 3/2; of the centre and of the sides.
    pub(super) drift: f64,
    pub(super) growth: f64,
}

/// A box in motion.
#[derive(Clone, Copy, Debug)]
pub(super) struct Motion {
    /// Centre x and y, width, height.
    axes: [Axis; 4],
}

impl Motion {
    pub(super) fn new(bbox: [f32; 4], noise: &Noise) -> Motion {
        let z = measure(bbox);
        let size = size(&z);
        let axis = |k: usize| {
            let speed = if k < 2 { noise.speed } else { 0.5 * noise.speed };
            Axis::new(z[k], noise.measured * size, speed * size)
        };
        Motion { axes: [axis(0), axis(1), axis(2), axis(3)] }
    }

    /// Lets `dt` seconds pass.
    pub(super) fn predict(&mut self, dt: f64, noise: &Noise) {
        let size = self.size();
        for (k, axis) in self.axes.iter_mut().enumerate() {
            let root = size * if k < 2 { noise.drift } else { noise.growth };
            axis.predict(dt, root * root);
        }
        // A box that shrinks out of sight keeps a hundredth of a pixel, so that its centre stays defined.
        for side in &mut self.axes[2..] {
            if side.position < 0.01 {
                (side.position, side.velocity) = (0.01, 0.0);
            }
        }
    }

    /// Takes in an observed box. The less sure the detector, the farther the box may be off: that of a half hidden object
    /// shows its visible half.
    pub(super) fn correct(&mut self, bbox: [f32; 4], score: f32, noise: &Noise) {
        let z = measure(bbox);
        let r = noise.measured * size(&z) * (1.0 + noise.doubt * (1.0 - f64::from(score)));
        for (axis, z) in self.axes.iter_mut().zip(z) {
            axis.correct(z, r * r);
        }
    }

    /// Goes on out of sight: sides keep their length, and a velocity fades over `dt` seconds, since most of what was
    /// last seen of it is how the box shrank behind whatever hides it.
    pub(super) fn fade(&mut self, dt: f64, noise: &Noise) {
        for side in &mut self.axes[2..] {
            side.velocity = 0.0;
        }
        let keep = (-dt / noise.coast).exp();
        for axis in &mut self.axes[..2] {
            axis.velocity *= keep;
        }
    }

    /// Left, top, right, bottom.
    pub(super) fn bbox(&self) -> [f32; 4] {
        let [x, y, w, h] = self.axes.map(|a| a.position);
        [x - w / 2.0, y - h / 2.0, x + w / 2.0, y + h / 2.0].map(|v| v as f32)
    }

    /// Pixels per second to the right and down.
    pub(super) fn velocity(&self) -> (f32, f32) {
        (self.axes[0].velocity as f32, self.axes[1].velocity as f32)
    }

    /// Standard deviation of the centre in pixels, along x and y.
    pub(super) fn deviation(&self) -> (f32, f32) {
        (self.axes[0].pp.sqrt() as f32, self.axes[1].pp.sqrt() as f32)
    }

    fn size(&self) -> f64 {
        size(&self.axes.map(|a| a.position))
    }
}

fn measure([x0, y0, x1, y1]: [f32; 4]) -> [f64; 4] {
    let [x0, y0, x1, y1] = [x0, y0, x1, y1].map(f64::from);
    [(x0 + x1) / 2.0, (y0 + y1) / 2.0, x1 - x0, y1 - y0]
}

fn size(z: &[f64; 4]) -> f64 {
    (z[2] * z[3]).max(1.0).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOISE: Noise =
        Noise { measured: 0.05, doubt: 2.0, coast: 1.0, speed: 1.0, drift: 1.0, growth: 0.3 };

    #[test]
    fn agrees_with_a_filter_of_matrices() {
        // The textbook's equations: F = [[1, dt], [0, 1]], H = [1, 0], x = F x, P = F P F' + Q, K = P H' / (H P H' + R).
        let mut a = Axis::new(3.0, 0.5, 2.0);
        for (dt, z) in [(0.1, 3.3), (0.5, 4.9), (0.033, 4.8), (1.2, 9.0)] {
            a.predict(dt, 0.7);
            a.correct(z, 0.16);
        }
        let (mut x, mut p) = ([3.0f64, 0.0], [[0.25f64, 0.0], [0.0, 4.0]]);
        for (dt, z) in [(0.1f64, 3.3f64), (0.5, 4.9), (0.033, 4.8), (1.2, 9.0)] {
            let f = [[1.0, dt], [0.0, 1.0]];
            let q = [[0.7 * dt.powi(3) / 3.0, 0.7 * dt * dt / 2.0], [0.7 * dt * dt / 2.0, 0.7 * dt]];
            x = [x[0] + dt * x[1], x[1]];
            let mut n = q;
            for i in 0..2 {
                for j in 0..2 {
                    for k in 0..2 {
                        for l in 0..2 {
                            n[i][j] += f[i][k] * p[k][l] * f[j][l];
                        }
                    }
                }
            }
            let s = n[0][0] + 0.16;
            let gain = [n[0][0] / s, n[1][0] / s];
            let e = z - x[0];
            x = [x[0] + gain[0] * e, x[1] + gain[1] * e];
            for i in 0..2 {
                for j in 0..2 {
                    p[i][j] = n[i][j] - gain[i] * n[0][j];
                }
            }
        }
        for (found, want) in
            [(a.position, x[0]), (a.velocity, x[1]), (a.pp, p[0][0]), (a.pv, p[0][1]), (a.vv, p[1][1])]
        {
            assert!((found - want).abs() < 1e-12, "{found} {want}");
        }
    }

    #[test]
    fn one_long_step_is_many_short_ones() {
        let mut long = Motion::new([10.0, 20.0, 50.0, 100.0], &NOISE);
        long.predict(0.1, &NOISE);
        long.correct([14.0, 20.0, 54.0, 100.0], 1.0, &NOISE);
        let mut short = long;
        long.predict(0.8, &NOISE);
        for _ in 0..8 {
            short.predict(0.1, &NOISE);
        }
        // The size changes on the way, and noise with it: hence not to the last bit.
        for (a, b) in long.axes.iter().zip(&short.axes) {
            assert!((a.position - b.position).abs() < 1e-9);
            assert!((a.pp / b.pp - 1.0).abs() < 0.02, "{} {}", a.pp, b.pp);
        }
    }

    #[test]
    fn finds_a_constant_velocity() {
        let mut m = Motion::new([0.0, 0.0, 40.0, 80.0], &NOISE);
        for k in 1..40 {
            m.predict(0.05, &NOISE);
            let x = 120.0 * 0.05 * k as f32;
            m.correct([x, 0.0, x + 40.0, 80.0], 1.0, &NOISE);
        }
        assert!((m.velocity().0 - 120.0).abs() < 1.0 && m.velocity().1.abs() < 0.1, "{:?}", m.velocity());
    }
}
