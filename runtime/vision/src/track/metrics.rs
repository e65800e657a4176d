//! How well tracks follow the truth: CLEAR MOT (Bernardin and Stiefelhagen 2008), identity F1 (Ristani et al. 2016) and
//! HOTA (Luiten et al. 2021), with the conventions of TrackEval.

use super::assign::Matcher;
use std::collections::BTreeMap;

/// An object of a frame's truth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Actual {
    /// The same for one object in all frames.
    pub id: u64,
    /// Only tracks of the same class can match.
    pub class: u32,
    /// Left, top, right, bottom in pixels.
    pub bbox: [f32; 4],
    /// Neither to be found nor wrong when found: a track that fits it best does not count at all.
    pub ignore: bool,
}

/// A track in one frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Followed {
    /// The same for one track in all frames.
    pub id: u64,
    /// Class number.
    pub class: u32,
    /// Left, top, right, bottom in pixels.
    pub bbox: [f32; 4],
}

/// Scores of a sequence, or of several together. Fractions are 0..=1, but for MOTA, which can be negative.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Scores {
    /// `1 - (misses + false positives + switches) / objects`, at IoU 0.5.
    pub mota: f64,
    /// Objects of all frames.
    pub objects: u64,
    /// Objects that no track matches.
    pub misses: u64,
    /// Track boxes that match no object.
    pub false_positives: u64,
    /// How often an object goes on under another track's id.
    pub switches: u64,
    /// F1 of boxes whose identities agree under the best one-to-one assignment of whole tracks, at IoU 0.5.
    pub idf1: f64,
    /// Precision and recall of the same.
    pub idp: f64,
    /// See [`Self::idp`].
    pub idr: f64,
    /// Geometric mean of detection and association accuracy, mean over IoU thresholds 0.05 to 0.95.
    pub hota: f64,
    /// Detection accuracy, mean over thresholds.
    pub det_a: f64,
    /// Association accuracy, mean over thresholds.
    pub ass_a: f64,
}

/// Possible matches of a frame: object and track (positions in the lists of all) and IoU.
#[derive(Clone, Debug, Default)]
struct Frame {
    actual: Vec<usize>,
    followed: Vec<usize>,
    /// Position in `actual`, position in `followed`, IoU above 0.
    overlaps: Vec<(usize, usize, f64)>,
}

/// Collects frames and scores them.
#[derive(Clone, Debug, Default)]
pub struct Scorer {
    actual: BTreeMap<(u64, u64), usize>,
    followed: BTreeMap<(u64, u64), usize>,
    frames: Vec<Frame>,
    sequence: u64,
    matcher: Matcher,
    pairs: Vec<(usize, usize)>,
}

const THRESHOLDS: usize = 19;
/// As TrackEval allows for rounding.
const EPSILON: f64 = f64::EPSILON;

impl Scorer {
    /// Nothing seen yet.
    pub fn new() -> Scorer {
        Scorer::default()
    }

    /// Adds the next frame of the sequence: ids must not occur twice in it.
    pub fn add(&mut self, actual: &[Actual], followed: &[Followed]) {
        let iou = |a: &Actual, f: &Followed| {
            if a.class == f.class { f64::from(crate::iou(&a.bbox, &f.bbox)) } else { 0.0 }
        };
        self.matcher.clear();
        for (i, a) in actual.iter().enumerate() {
            for (j, f) in followed.iter().enumerate() {
                let v = iou(a, f);
                if v >= 0.5 - EPSILON {
                    self.matcher.allow(i, j, v);
                }
            }
        }
        self.matcher.solve(actual.len(), followed.len(), &mut self.pairs);
        let excused: Vec<usize> = self.pairs.iter().filter(|p| actual[p.0].ignore).map(|p| p.1).collect();
        let mut frame = Frame::default();
        let followed: Vec<&Followed> =
            followed.iter().enumerate().filter(|(j, _)| !excused.contains(j)).map(|(_, f)| f).collect();
        for f in &followed {
            let n = self.followed.len();
            frame.followed.push(*self.followed.entry((self.sequence, f.id)).or_insert(n));
        }
        for (i, a) in actual.iter().filter(|a| !a.ignore).enumerate() {
            let n = self.actual.len();
            frame.actual.push(*self.actual.entry((self.sequence, a.id)).or_insert(n));
            for (j, f) in followed.iter().enumerate() {
                let v = iou(a, f);
                if v > 0.0 {
                    frame.overlaps.push((i, j, v));
                }
            }
        }
        self.frames.push(frame);
    }

    /// Begins another sequence: ids from here on are other objects than before.
    pub fn next_sequence(&mut self) {
        self.sequence += 1;
    }

    /// The scores of all frames so far.
    pub fn scores(&mut self) -> Scores {
        let mut s = Scores::default();
        self.clear_mot(&mut s);
        self.identity(&mut s);
        self.hota(&mut s);
        s
    }

    fn clear_mot(&mut self, s: &mut Scores) {
        let n = self.actual.len();
        // The track of each object when it was last matched, and in the frame before.
        let (mut ever, mut lately) = (vec![None; n], vec![None; n]);
        for f in &self.frames {
            s.objects += f.actual.len() as u64;
            if f.actual.is_empty() || f.followed.is_empty() {
                s.misses += f.actual.len() as u64;
                s.false_positives += f.followed.len() as u64;
                continue;
            }
            self.matcher.clear();
            for (i, j, v) in &f.overlaps {
                if *v >= 0.5 - EPSILON {
                    // What was matched stays so.
                    let stays = lately[f.actual[*i]] == Some(f.followed[*j]);
                    self.matcher.allow(*i, *j, v + if stays { 1000.0 } else { 0.0 });
                }
            }
            self.matcher.solve(f.actual.len(), f.followed.len(), &mut self.pairs);
            s.misses += (f.actual.len() - self.pairs.len()) as u64;
            s.false_positives += (f.followed.len() - self.pairs.len()) as u64;
            lately.fill(None);
            for (i, j) in &self.pairs {
                let (object, track) = (f.actual[*i], f.followed[*j]);
                s.switches += u64::from(ever[object].is_some_and(|t| t != track));
                ever[object] = Some(track);
                lately[object] = Some(track);
            }
        }
        let wrong = (s.misses + s.false_positives + s.switches) as f64;
        s.mota = 1.0 - wrong / s.objects.max(1) as f64;
    }

    fn identity(&mut self, s: &mut Scores) {
        let mut together: BTreeMap<(usize, usize), u64> = BTreeMap::new();
        let mut boxes = 0;
        for f in &self.frames {
            boxes += f.followed.len();
            for (i, j, _) in f.overlaps.iter().filter(|o| o.2 >= 0.5) {
                *together.entry((f.actual[*i], f.followed[*j])).or_default() += 1;
            }
        }
        self.matcher.clear();
        for ((i, j), n) in &together {
            self.matcher.allow(*i, *j, *n as f64);
        }
        self.matcher.solve(self.actual.len(), self.followed.len(), &mut self.pairs);
        let right: u64 = self.pairs.iter().map(|p| together.get(p).copied().unwrap_or(0)).sum();
        let of = |n: u64| if n > 0 { right as f64 / n as f64 } else { 0.0 };
        (s.idp, s.idr) = (of(boxes as u64), of(s.objects));
        s.idf1 = 2.0 * right as f64 / (boxes as u64 + s.objects).max(1) as f64;
    }

    fn hota(&mut self, s: &mut Scores) {
        // How well each object and track fit over their whole lives.
        let (mut lives, mut tracks) = (vec![0.0f64; self.actual.len()], vec![0.0f64; self.followed.len()]);
        let mut fit: BTreeMap<(usize, usize), f64> = BTreeMap::new();
        for f in &self.frames {
            f.actual.iter().for_each(|k| lives[*k] += 1.0);
            f.followed.iter().for_each(|k| tracks[*k] += 1.0);
            let (mut rows, mut cols) = (vec![0.0; f.actual.len()], vec![0.0; f.followed.len()]);
            for (i, j, v) in &f.overlaps {
                rows[*i] += v;
                cols[*j] += v;
            }
            for (i, j, v) in &f.overlaps {
                *fit.entry((f.actual[*i], f.followed[*j])).or_default() += v / (rows[*i] + cols[*j] - v);
            }
        }
        for ((i, j), v) in &mut fit {
            *v /= lives[*i] + tracks[*j] - *v;
        }
        let mut hits = [0.0f64; THRESHOLDS];
        let mut matched: BTreeMap<(usize, usize), [f64; THRESHOLDS]> = BTreeMap::new();
        for f in &self.frames {
            self.matcher.clear();
            for (i, j, v) in &f.overlaps {
                let fit = fit.get(&(f.actual[*i], f.followed[*j])).copied().unwrap_or(0.0);
                self.matcher.allow(*i, *j, fit * v);
            }
            self.matcher.solve(f.actual.len(), f.followed.len(), &mut self.pairs);
            for (i, j) in &self.pairs {
                let v = f.overlaps.iter().find(|o| (o.0, o.1) == (*i, *j)).map_or(0.0, |o| o.2);
                let counts = matched.entry((f.actual[*i], f.followed[*j])).or_default();
                for (k, (hits, count)) in hits.iter_mut().zip(counts).enumerate() {
                    if v >= 0.05 * (k + 1) as f64 - EPSILON {
                        *hits += 1.0;
                        *count += 1.0;
                    }
                }
            }
        }
        let (objects, boxes) = (lives.iter().sum::<f64>(), tracks.iter().sum::<f64>());
        for (k, hits) in hits.iter().enumerate() {
            let ass: f64 = matched
                .iter()
                .map(|((i, j), n)| n[k] * n[k] / (lives[*i] + tracks[*j] - n[k]).max(1.0))
                .sum();
            let ass = ass / hits.max(1.0);
            let det = hits / (objects + boxes - hits).max(1.0);
            let share = 1.0 / THRESHOLDS as f64;
            s.det_a += det * share;
            s.ass_a += ass * share;
            s.hota += (det * ass).sqrt() * share;
        }
    }
}
