//! Which frames of a simulated camera are meant: an address with a beginning, a number and a step.

use super::index::MAX_INDEX;
use super::spec::{SimSpec, bad};
use crate::Result;
use std::fmt;

const KEYS: [&str; 3] = ["frames", "first", "step"];

/// Frames of a simulated camera, for what looks at single pictures.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SimClip {
    /// What is simulated.
    pub spec: SimSpec,
    /// Number of the first frame, 0..=2^48-1.
    pub first: u64,
    /// How many frames, 1..=2^32-1.
    pub frames: u64,
    /// Frames from one picture to the next, 1..=2^32-1.
    pub step: u64,
}

impl SimClip {
    /// What `sim:` without a scene stands for: a frame that shows every class but one or two, large enough to be named.
    pub const DEMO: &'static str = "sim:street?seed=10&light=day&index=off&first=205";

    /// One frame of `spec`, the first.
    pub fn new(spec: SimSpec) -> SimClip {
        SimClip { spec, first: 0, frames: 1, step: 1 }
    }

    /// Reads an address as [`SimSpec::parse`] does, with three keys more: `frames` (1 unless given), `first` (0) and
    /// `step` (1), such as `sim:crowded?seed=7&first=90&frames=10&step=30`. Without a scene (`sim:`, `sim:?frames=3`) the
    /// keys change the address [`SimClip::DEMO`].
    ///
    /// # Errors
    /// As [`SimSpec::parse`].
    pub fn parse(uri: &str) -> Result<SimClip> {
        let start = SimClip::new(SimSpec::default());
        match uri.strip_prefix("sim:").map(|rest| rest.split('?').next().unwrap_or_default()) {
            Some("") => start.change(SimClip::DEMO)?.change(uri),
            _ => start.change(uri),
        }
    }

    fn change(self, uri: &str) -> Result<SimClip> {
        let SimClip { spec, mut first, mut frames, mut step } = self;
        let spec = spec.change(uri, &KEYS, &mut |key, value| {
            let (lo, hi) = if key == "first" { (0, MAX_INDEX) } else { (1, u64::from(u32::MAX)) };
            let n = value
                .parse::<u64>()
                .ok()
                .filter(|n| (lo..=hi).contains(n))
                .ok_or_else(|| bad(key, value, &format!("a whole number from {lo} to {hi}")))?;
            match key {
                "first" => first = n,
                "frames" => frames = n,
                _ => step = n,
            }
            Ok(())
        })?;
        let clip = SimClip { spec, first, frames, step };
        let last = clip.number(frames - 1);
        if last > MAX_INDEX {
            return Err(bad(
                "frames",
                &frames.to_string(),
                &format!("a last frame up to {MAX_INDEX}, not {last}"),
            ));
        }
        Ok(clip)
    }

    /// Number of the `k`-th frame of the clip, from 0.
    pub fn number(&self, k: u64) -> u64 {
        self.first.saturating_add(k.saturating_mul(self.step.max(1)))
    }

    /// The clip of the one frame `n` of this camera. Its address names the frame.
    pub fn single(&self, n: u64) -> SimClip {
        SimClip { spec: self.spec.clone(), first: n, frames: 1, step: 1 }
    }
}

impl fmt::Display for SimClip {
    /// The address. Reading it gives the same clip.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.spec)?;
        if self.first != 0 {
            write!(f, "&first={}", self.first)?;
        }
        if self.frames != 1 {
            write!(f, "&frames={}", self.frames)?;
        }
        if self.step != 1 {
            write!(f, "&step={}", self.step)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::sim::{LightKind, SceneKind};

    #[test]
    fn frames_are_part_of_the_address() {
        let c = SimClip::parse("sim:crowded?seed=7&first=90&frames=10&step=30&light=night").unwrap();
        assert_eq!(
            (c.spec.scene, c.spec.seed, c.spec.light),
            (SceneKind::Crowded, 7, Some(LightKind::Night))
        );
        assert_eq!((c.first, c.frames, c.step), (90, 10, 30));
        assert_eq!((c.number(0), c.number(9)), (90, 360));
        assert_eq!(SimClip::parse(&c.to_string()).unwrap(), c);
        assert_eq!(c.single(120).to_string(), "sim:crowded?seed=7&light=night&first=120");
        assert_eq!(SimClip::parse("sim:street").unwrap(), SimClip::new(SimSpec::default()));
    }

    #[test]
    fn without_a_scene_it_is_the_demonstration() {
        let demo = SimClip::parse("sim:").unwrap();
        assert_eq!(demo, SimClip::parse(SimClip::DEMO).unwrap());
        let three = SimClip::parse("sim:?frames=3").unwrap();
        assert_eq!(three, SimClip { frames: 3, ..demo });
    }

    #[test]
    fn errors_say_what_to_do() {
        for (uri, part) in [
            ("sim:street?frames=0", "frames=0 is not possible: expected a whole number from 1"),
            ("sim:street?frames=x", "frames=x is not possible"),
            ("sim:street?step=0", "step=0"),
            (
                "sim:street?first=281474976710655&frames=2",
                "a last frame up to 281474976710655, not 281474976710656",
            ),
            ("sim:street?step=4294967295&frames=4294967295", "a last frame up to"),
            ("sim:street?first=-1", "first=-1"),
            ("sim:street?frame=3", "did you mean 'frames'?"),
            ("sim:?frames=1&frames=2", "given twice"),
            ("sim:?zzzzzzzzzzzz=1", "index, frames, first, step"),
        ] {
            let e = SimClip::parse(uri).unwrap_err().to_string();
            assert!(e.contains(part), "{uri}: {e}");
        }
        assert!(SimSpec::parse("sim:street?frames=3").is_err());
    }
}
