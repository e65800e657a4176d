//! Light and weather: what shines on a surface and how it looks to the camera.

use super::maths::{Rng, V3, lerp, v3};
use super::mesh::Material;
use super::spec::{LightKind, SimSpec};

/// The light of a scene. Colours are linear; 1.0 exposes to white.
#[derive(Clone, Copy, Debug)]
pub(super) struct Light {
    pub(super) kind: LightKind,
    /// Towards the sun.
    pub(super) sun_dir: V3,
    pub(super) sun: V3,
    /// Ambient light from above and from below.
    pub(super) sky: V3,
    pub(super) ground: V3,
    /// Colours of the sky dome, as seen and as mirrored.
    pub(super) zenith: V3,
    pub(super) horizon: V3,
    /// Colour of a street lamp's light where it is full, zero by day.
    pub(super) lamp: V3,
    /// How much clouds cover the sky, 0..1.
    pub(super) clouds: f32,
    /// Haze per metre.
    pub(super) haze: f32,
    pub(super) rain: bool,
}

/// What reaches one object: share of the sun and of the nearest lamp, 0..1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reach {
    pub(super) sun: f32,
    pub(super) lamp: f32,
}

impl Light {
    pub(super) fn new(spec: &SimSpec) -> Light {
        let mut r = Rng::keyed(spec.seed, 0x11_97, 0);
        let kind = spec.light_kind();
        let side = r.range(-1.0, 1.0);
        let mut light = match kind {
            LightKind::Day => {
                let clouds = r.unit();
                // Under a thick cover the sun turns into brighter, flatter sky.
                let clear = 1.0 - 0.85 * ((clouds - 0.45) * 2.4).clamp(0.0, 1.0);
                Light {
                    kind,
                    sun_dir: v3(side * 0.8, r.range(0.8, 1.6), r.range(-0.9, 0.2)).unit(),
                    sun: v3(1.02, 0.93, 0.79) * (0.92 * clear),
                    sky: v3(0.50, 0.55, 0.63) * (1.40 - 0.40 * clear),
                    ground: v3(0.28, 0.26, 0.24),
                    zenith: v3(0.16, 0.33, 0.66),
                    horizon: v3(0.62, 0.72, 0.84),
                    lamp: V3::default(),
                    clouds,
                    haze: 0.0016,
                    rain: false,
                }
            }
            LightKind::Dusk => Light {
                kind,
                sun_dir: v3(side * 0.7, 0.35, 0.8).unit(),
                sun: v3(0.50, 0.27, 0.12) * 0.55,
                sky: v3(0.27, 0.25, 0.32),
                ground: v3(0.125, 0.11, 0.11),
                zenith: v3(0.07, 0.09, 0.22),
                horizon: v3(0.72, 0.36, 0.16),
                lamp: v3(0.16, 0.12, 0.06),
                clouds: r.range(0.3, 0.7),
                haze: 0.0025,
                rain: false,
            },
            LightKind::Night => Light {
                kind,
                sun_dir: v3(side * 0.5, 0.9, -0.3).unit(),
                sun: v3(0.012, 0.014, 0.02),
                sky: v3(0.042, 0.043, 0.055),
                ground: v3(0.026, 0.024, 0.021),
                zenith: v3(0.004, 0.005, 0.012),
                horizon: v3(0.035, 0.028, 0.024),
                lamp: v3(0.74, 0.57, 0.32),
                clouds: r.range(0.2, 0.8),
                haze: 0.001,
                rain: false,
            },
        };
        if spec.rain {
            light.rain = true;
            light.clouds = 1.0;
            light.haze *= 2.5;
            light.sun = light.sun * 0.12;
            light.sky = light.sky * 0.85;
            match kind {
                LightKind::Day => {
                    light.zenith = v3(0.40, 0.43, 0.47);
                    light.horizon = v3(0.55, 0.57, 0.60);
                }
                LightKind::Dusk => {
                    light.zenith = v3(0.10, 0.11, 0.16);
                    light.horizon = v3(0.27, 0.22, 0.22);
                }
                LightKind::Night => {}
            }
        }
        light
    }

    /// Whether lamps and headlights are on.
    pub(super) fn lamps_on(&self) -> bool {
        self.kind != LightKind::Day
    }

    /// What a mirror sees in direction `d`.
    pub(super) fn environment(&self, d: V3) -> V3 {
        if d.y >= 0.0 {
            // Facades stand along both sides, so a mirror that looks low sees walls, not sky.
            let open = ((d.y - 0.16) * 5.0).clamp(0.0, 1.0);
            let wall = (self.sky + self.ground) * 0.26 + self.lamp * 0.25;
            wall.lerp(self.horizon.lerp(self.zenith, d.y), open)
        } else {
            self.ground.lerp(self.sky, 0.35) * 0.42 + self.lamp * 0.12
        }
    }

    /// Diffuse light that falls on a surface with normal `n`.
    pub(super) fn diffuse(&self, n: V3, reach: Reach) -> V3 {
        let up = 0.5 + 0.5 * n.y;
        let ambient = self.ground.lerp(self.sky, up);
        let sun = n.dot(self.sun_dir).max(0.0) * reach.sun;
        // Lamps hang above the street: they light what faces up, and vertical faces somewhat.
        let lamp = (0.35 + 0.65 * n.y).max(0.08) * reach.lamp;
        ambient + self.sun * sun + self.lamp * lamp
    }

    /// The 0..255 colour of a surface at height `y` above the ground, seen from direction `to_eye` at `distance` metres.
    pub(super) fn shade(
        &self,
        m: &Material,
        n: V3,
        y: f32,
        to_eye: V3,
        distance: f32,
        reach: Reach,
    ) -> [f32; 3] {
        // The street hides the lower sky from what is close to it.
        let occlusion =
            lerp(0.62, 1.0, (y * 1.6).clamp(0.0, 1.0)) * lerp(0.8, 1.0, (0.5 + n.y).clamp(0.0, 1.0));
        let mut light = self.diffuse(n, reach) * occlusion;
        let facing = n.dot(to_eye).clamp(0.0, 1.0);
        let mut mirrored = V3::default();
        if m.gloss > 0.0 {
            let k = 1.0 - facing;
            let k2 = k * k;
            let fresnel = m.gloss + (1.0 - m.gloss) * k2 * k2 * k * m.gloss.min(0.25) * 4.0;
            let r = n * (2.0 * n.dot(to_eye)) - to_eye;
            let mut s = r.dot(self.sun_dir).max(0.0);
            for _ in 0..6 {
                s *= s;
            }
            mirrored = self.environment(r) * fresnel + self.sun * (s * reach.sun * m.gloss * 4.0);
            light = light * (1.0 - fresnel * 0.6);
        }
        let own = v3(m.rgb.x * light.x, m.rgb.y * light.y, m.rgb.z * light.z);
        let out = own + mirrored + m.rgb * m.emit;
        self.expose(out, distance)
    }

    /// Haze, then gamma 2, in 0..255.
    pub(super) fn expose(&self, c: V3, distance: f32) -> [f32; 3] {
        let t = (distance * self.haze).min(0.85);
        let c = c.lerp(self.horizon, t);
        let f = |v: f32| {
            // A soft shoulder keeps highlights from clipping hard.
            let v = v.max(0.0);
            let v = if v > 0.7 { 0.7 + (v - 0.7) / (1.0 + (v - 0.7) * 2.2) } else { v };
            (v.min(1.0)).sqrt() * 255.0
        };
        [f(c.x), f(c.y), f(c.z)]
    }
}
