//! What to simulate: the `sim:` address and its parameters.

use super::maths::{Rng, mix};
use crate::suggest::advice;
use crate::{Error, ErrorKind, Result};
use std::fmt;

/// The named scenes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SceneKind {
    /// The standard street: a mix of vehicles, cyclists, pedestrians and dogs.
    Street,
    /// Dense, slow traffic and full pavements.
    Crowded,
    /// A handful of road users.
    Sparse,
    /// Few road users among things that resemble them: pillar boxes, hydrants, bollards, crates, hoardings, bushes.
    Distractors,
    /// The street without any object of a class.
    Empty,
}

impl SceneKind {
    /// The name, as in an address.
    pub fn name(self) -> &'static str {
        match self {
            SceneKind::Street => "street",
            SceneKind::Crowded => "crowded",
            SceneKind::Sparse => "sparse",
            SceneKind::Distractors => "distractors",
            SceneKind::Empty => "empty",
        }
    }
}

/// The light of a scene.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LightKind {
    /// Sun or overcast.
    Day,
    /// Low, warm light; lamps are on.
    Dusk,
    /// Street lamps and headlights.
    Night,
}

impl LightKind {
    /// The name, as in an address.
    pub fn name(self) -> &'static str {
        match self {
            LightKind::Day => "day",
            LightKind::Dusk => "dusk",
            LightKind::Night => "night",
        }
    }
}

/// Everything that determines the pixels of every frame.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SimSpec {
    /// Which scene.
    pub scene: SceneKind,
    /// Seed of everything random.
    pub seed: u64,
    /// Width of a frame in pixels, 160..=7680.
    pub width: usize,
    /// Height of a frame in pixels, 96..=4320.
    pub height: usize,
    /// Frames per second, 1..=240: the time between two frames is `1/fps`.
    pub fps: u32,
    /// How many road users and fixtures of a class live in the scene, 0..=64. A cyclist counts once, though bicycle and
    /// rider are two objects in the truth. `None`: what the scene has by default.
    pub objects: Option<u32>,
    /// The light. `None` (`light=auto`): chosen by the seed.
    pub light: Option<LightKind>,
    /// Whether it rains.
    pub rain: bool,
    /// Standard deviation of the sensor noise in 8-bit steps, 0..=40.
    pub noise: f32,
    /// Motion blur: how long the shutter is open, as a fraction of the frame time, 0..=1.
    pub blur: f32,
    /// Passes each frame through JPEG at this quality, 1..=100.
    pub jpeg: Option<u8>,
    /// Camera shake: the largest displacement in pixels, 0..=64.
    pub shake: u32,
    /// Whether the frame number is written into the top left corner.
    pub index: bool,
}

impl Default for SimSpec {
    /// `sim:street`.
    fn default() -> Self {
        SimSpec {
            scene: SceneKind::Street,
            seed: 1,
            width: 1280,
            height: 720,
            fps: 30,
            objects: None,
            light: None,
            rain: false,
            noise: 2.0,
            blur: 0.0,
            jpeg: None,
            shake: 0,
            index: true,
        }
    }
}

const SCENES: [SceneKind; 5] =
    [SceneKind::Street, SceneKind::Crowded, SceneKind::Sparse, SceneKind::Distractors, SceneKind::Empty];

const KEYS: [&str; 11] =
    ["seed", "size", "fps", "objects", "light", "weather", "noise", "blur", "jpeg", "shake", "index"];

impl SimSpec {
    /// Reads an address such as `sim:street?seed=7&size=1280x720&fps=30&objects=12&light=dusk&weather=rain&noise=3`.
    ///
    /// `sim:` alone is the standard street. Keys: `seed`, `size=WxH`, `fps`, `objects`, `light=auto|day|dusk|night`,
    /// `weather=clear|rain`, `noise` (standard deviation), `blur` (shutter, 0 to 1), `jpeg` (quality), `shake` (pixels),
    /// `index=on|off`.
    ///
    /// # Errors
    /// [`ErrorKind::Uri`] for another scheme, an unknown scene or key (with the nearest known one), a key given twice;
    /// [`ErrorKind::Value`] for a value that its key does not allow.
    pub fn parse(uri: &str) -> Result<SimSpec> {
        SimSpec::default().change(uri, &[], &mut |_, _| Ok(()))
    }

    /// This specification with what an address says in place of its own. Keys of `more` are given to `other`.
    pub(super) fn change(
        mut self,
        uri: &str,
        more: &[&'static str],
        other: &mut dyn FnMut(&str, &str) -> Result<()>,
    ) -> Result<SimSpec> {
        let rest = uri.strip_prefix("sim:").ok_or_else(|| {
            bad_uri(format!("'{uri}' is not a simulated camera: expected sim:SCENE?key=value&..."))
        })?;
        let (scene, query) = rest.split_once('?').unwrap_or((rest, ""));
        if !scene.is_empty() {
            self.scene = *SCENES.iter().find(|s| s.name() == scene).ok_or_else(|| {
                let names: Vec<&str> = SCENES.iter().map(|s| s.name()).collect();
                bad_uri(format!("unknown scene '{scene}' in '{uri}'{}", advice(scene, &names)))
            })?;
        }
        let keys = [&KEYS, more].concat();
        let mut seen: Vec<&str> = Vec::new();
        for pair in query.split('&').filter(|p| !p.is_empty()) {
            let (key, value) = pair
                .split_once('=')
                .ok_or_else(|| bad_uri(format!("'{pair}' in '{uri}' has no value: expected key=value")))?;
            let key = *keys
                .iter()
                .find(|k| **k == key)
                .ok_or_else(|| bad_uri(format!("unknown key '{key}' in '{uri}'{}", advice(key, &keys))))?;
            if seen.contains(&key) {
                return Err(bad_uri(format!("key '{key}' is given twice in '{uri}': give it once")));
            }
            seen.push(key);
            if more.contains(&key) { other(key, value)? } else { self.set(key, value)? }
        }
        Ok(self)
    }

    /// Sets one parameter from its text.
    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        match key {
            "seed" => {
                self.seed = value.parse().map_err(|_| bad(key, value, "a whole number from 0 to 2^64-1"))?
            }
            "size" => {
                let want = "WIDTHxHEIGHT from 160x96 to 7680x4320, such as 1280x720";
                let (w, h) = value.split_once('x').ok_or_else(|| bad(key, value, want))?;
                let side = |text: &str, lo, hi| {
                    let side = text.parse::<u32>().ok().filter(|v| (lo..=hi).contains(v));
                    side.map(|v| v as usize).ok_or_else(|| bad(key, value, want))
                };
                (self.width, self.height) = (side(w, 160, 7680)?, side(h, 96, 4320)?);
            }
            "fps" => self.fps = whole(key, value, 1, 240, "a whole number from 1 to 240")?,
            "objects" => self.objects = Some(whole(key, value, 0, 64, "a whole number from 0 to 64")?),
            "light" => {
                self.light = match value {
                    "auto" => None,
                    "day" => Some(LightKind::Day),
                    "dusk" => Some(LightKind::Dusk),
                    "night" => Some(LightKind::Night),
                    _ => return Err(bad(key, value, "auto, day, dusk or night")),
                }
            }
            "weather" => {
                self.rain = match value {
                    "clear" => false,
                    "rain" => true,
                    _ => return Err(bad(key, value, "clear or rain")),
                }
            }
            "noise" => self.noise = real(key, value, 40.0)?,
            "blur" => self.blur = real(key, value, 1.0)?,
            "jpeg" => {
                self.jpeg = match value {
                    "off" => None,
                    _ => Some(whole(key, value, 1, 100, "off or a quality from 1 to 100")? as u8),
                }
            }
            "shake" => self.shake = whole(key, value, 0, 64, "pixels, a whole number from 0 to 64")?,
            _ => {
                self.index = match value {
                    "on" => true,
                    "off" => false,
                    _ => return Err(bad(key, value, "on or off")),
                }
            }
        }
        Ok(())
    }

    /// Checks ranges, for a specification that was filled in by hand.
    ///
    /// # Errors
    /// [`ErrorKind::Value`] as for [`SimSpec::parse`].
    pub fn check(&self) -> Result<()> {
        let in_range = |key: &str, found: f64, lo: f64, hi: f64| {
            if found >= lo && found <= hi {
                Ok(())
            } else {
                Err(bad(key, &found.to_string(), &format!("a number from {lo} to {hi}")))
            }
        };
        in_range("width", self.width as f64, 160.0, 7680.0)?;
        in_range("height", self.height as f64, 96.0, 4320.0)?;
        in_range("fps", f64::from(self.fps), 1.0, 240.0)?;
        in_range("objects", f64::from(self.objects.unwrap_or(0)), 0.0, 64.0)?;
        in_range("noise", f64::from(self.noise), 0.0, 40.0)?;
        in_range("blur", f64::from(self.blur), 0.0, 1.0)?;
        in_range("jpeg", f64::from(self.jpeg.unwrap_or(1)), 1.0, 100.0)?;
        in_range("shake", f64::from(self.shake), 0.0, 64.0)
    }

    /// The light in force: the one asked for, or the seed's choice (day in three of five seeds).
    pub fn light_kind(&self) -> LightKind {
        self.light.unwrap_or_else(|| match Rng::new(mix(self.seed) ^ 0x11).below(5) {
            0 => LightKind::Night,
            1 => LightKind::Dusk,
            _ => LightKind::Day,
        })
    }

    /// The number of objects in force.
    pub fn object_count(&self) -> u32 {
        match self.scene {
            SceneKind::Empty => 0,
            SceneKind::Street => self.objects.unwrap_or(12),
            SceneKind::Crowded => self.objects.unwrap_or(32),
            SceneKind::Sparse => self.objects.unwrap_or(4),
            SceneKind::Distractors => self.objects.unwrap_or(5),
        }
    }
}

impl fmt::Display for SimSpec {
    /// The address: the scene, its seed, and what is not as by default. Reading it gives the same specification.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let d = SimSpec::default();
        write!(f, "sim:{}?seed={}", self.scene.name(), self.seed)?;
        if (self.width, self.height) != (d.width, d.height) {
            write!(f, "&size={}x{}", self.width, self.height)?;
        }
        if self.fps != d.fps {
            write!(f, "&fps={}", self.fps)?;
        }
        if let Some(n) = self.objects {
            write!(f, "&objects={n}")?;
        }
        if let Some(light) = self.light {
            write!(f, "&light={}", light.name())?;
        }
        if self.rain {
            f.write_str("&weather=rain")?;
        }
        if self.noise != d.noise {
            write!(f, "&noise={}", self.noise)?;
        }
        if self.blur != d.blur {
            write!(f, "&blur={}", self.blur)?;
        }
        if let Some(q) = self.jpeg {
            write!(f, "&jpeg={q}")?;
        }
        if self.shake != d.shake {
            write!(f, "&shake={}", self.shake)?;
        }
        if !self.index {
            f.write_str("&index=off")?;
        }
        Ok(())
    }
}

fn bad_uri(message: String) -> Error {
    Error::new(ErrorKind::Uri, message)
}

pub(super) fn bad(key: &str, value: &str, want: &str) -> Error {
    Error::new(ErrorKind::Value, format!("{key}={value} is not possible: expected {want}"))
}

fn whole(key: &str, value: &str, lo: u32, hi: u32, want: &str) -> Result<u32> {
    value.parse::<u32>().ok().filter(|v| (lo..=hi).contains(v)).ok_or_else(|| bad(key, value, want))
}

fn real(key: &str, value: &str, hi: f32) -> Result<f32> {
    value
        .parse::<f32>()
        .ok()
        .filter(|v| (0.0..=hi).contains(v))
        .ok_or_else(|| bad(key, value, &format!("a number from 0 to {hi}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_address_is_understood() {
        let s = SimSpec::parse(
            "sim:crowded?seed=7&size=640x360&fps=25&objects=12&light=dusk&weather=rain&noise=3.5&blur=0.5&jpeg=50&shake=4&index=off",
        )
        .unwrap();
        let want = SimSpec {
            scene: SceneKind::Crowded,
            seed: 7,
            width: 640,
            height: 360,
            fps: 25,
            objects: Some(12),
            light: Some(LightKind::Dusk),
            rain: true,
            noise: 3.5,
            blur: 0.5,
            jpeg: Some(50),
            shake: 4,
            index: false,
        };
        assert_eq!(s, want);
        assert_eq!(SimSpec::parse("sim:").unwrap(), SimSpec::default());
        assert_eq!(SimSpec::parse(&s.to_string()).unwrap(), s);
        assert_eq!(SimSpec::default().to_string(), "sim:street?seed=1");
    }

    #[test]
    fn errors_say_what_to_do() {
        for (uri, kind, part) in [
            ("sim:street?sede=7", ErrorKind::Uri, "did you mean 'seed'?"),
            ("sim:stret", ErrorKind::Uri, "did you mean 'street'?"),
            ("sim:street?zzzzzzzzz=1", ErrorKind::Uri, "expected one of seed, size"),
            ("sim:street?seed", ErrorKind::Uri, "expected key=value"),
            ("sim:street?seed=1&seed=2", ErrorKind::Uri, "given twice"),
            ("file:x", ErrorKind::Uri, "expected sim:SCENE"),
            ("sim:street?size=10x10", ErrorKind::Value, "160x96"),
            ("sim:street?size=1280", ErrorKind::Value, "WIDTHxHEIGHT"),
            ("sim:street?size=1280x4321", ErrorKind::Value, "size=1280x4321 is not possible"),
            ("sim:street?size=159x720", ErrorKind::Value, "size=159x720 is not possible"),
            ("sim:street?noise=NaN", ErrorKind::Value, "from 0 to 40"),
            ("sim:street?noise=-1", ErrorKind::Value, "from 0 to 40"),
            ("sim:street?jpeg=0", ErrorKind::Value, "1 to 100"),
            ("sim:street?light=noon", ErrorKind::Value, "auto, day, dusk or night"),
            ("sim:street?weather=snow", ErrorKind::Value, "clear or rain"),
            ("sim:street?objects=65", ErrorKind::Value, "0 to 64"),
            ("sim:street?fps=0", ErrorKind::Value, "1 to 240"),
            ("sim:street?index=1", ErrorKind::Value, "on or off"),
        ] {
            let e = SimSpec::parse(uri).unwrap_err();
            assert_eq!(e.kind(), kind, "{uri}");
            assert!(e.to_string().contains(part), "{uri}: {e}");
        }
    }
}
