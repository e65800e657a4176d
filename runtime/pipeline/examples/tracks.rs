//! Follows objects of the simulated camera and scores the tracks against the truth.
//!
//! `cargo run --release -p saltica-pipeline --example tracks -- make DIR`: for some scenes and frame rates, writes the
//! truth (`NAME.truth`), what an imagined detector sees of it (`NAME.seen`) and the tracks (`NAME.tracks`), and prints
//! their scores. `... -- truth DIR` writes the truth alone. `... -- follow NAME.seen NAME.tracks` follows what any
//! detector saw; `... -- score NAME.truth NAME.tracks ...` scores what any tracker made of it.
//!
//! The files are text, the truth with the camera's address on top: `frame SECONDS` begins a frame; then, one a line, `id class ignore x0 y0 x1 y1` (truth),
//! `class score x0 y0 x1 y1` (seen) or `id class x0 y0 x1 y1` (tracks).

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use saltica_pipeline::source::sim::{FrameBuf, Sim, SimSpec, Truth};
use saltica_vision::track::metrics::{Actual, Followed, Scorer, Scores};
use saltica_vision::track::{Observation, TrackParams, TrackState, Tracker};

type Anything = Box<dyn std::error::Error>;

/// Name, scene, frames of the camera, every how many-th is kept, and how many of those are lost at random (in 100).
const CASES: &[(&str, &str, u64, u64, u32)] = &[
    ("street-30fps", "sim:street", 900, 1, 0),
    ("street-5fps-drops", "sim:street", 3600, 6, 30),
    ("street-seed5-30fps", "sim:street?seed=5", 900, 1, 0),
    ("street-seed5-5fps-drops", "sim:street?seed=5", 3600, 6, 30),
    ("crowded-30fps", "sim:crowded", 900, 1, 0),
    ("crowded-5fps-drops", "sim:crowded", 3600, 6, 30),
    // The parameters were chosen without these.
    ("street-seed11-30fps", "sim:street?seed=11", 900, 1, 0),
    ("street-seed12-5fps-drops", "sim:street?seed=12", 3600, 6, 30),
    ("crowded-seed13-30fps", "sim:crowded?seed=13", 900, 1, 0),
    ("street-shake-30fps", "sim:street?shake=12", 900, 1, 0),
];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args[..] {
        ["make", dir] => make(Path::new(dir), true),
        ["truth", dir] => make(Path::new(dir), false),
        ["follow", seen, tracks] => {
            read(Path::new(seen)).and_then(|f| follow(&f)).and_then(|t| Ok(std::fs::write(tracks, t)?))
        }
        ["score", truth, ref tracks @ ..] => tracks.iter().try_for_each(|t| {
            report(t, &score(&read(Path::new(truth))?, &read(Path::new(t))?)?);
            Ok(())
        }),
        _ => Err("give: make DIR | truth DIR | follow SEEN TRACKS | score TRUTH TRACKS...".into()),
    };
    if let Err(e) = done {
        eprintln!("error: {e}");
        std::process::exit(2);
    }
}

/// A frame of any of the files: its time and the numbers of its lines.
type Frames = Vec<(Duration, Vec<Vec<f64>>)>;

fn read(path: &Path) -> Result<Frames, Anything> {
    let mut out = Frames::new();
    for line in std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?.lines() {
        if let Some(t) = line.strip_prefix("frame ") {
            out.push((Duration::from_secs_f64(t.parse()?), Vec::new()));
        } else if let Some(last) = out.last_mut() {
            last.1.push(line.split_whitespace().map(str::parse).collect::<Result<_, _>>()?);
        }
    }
    Ok(out)
}

fn bbox(v: &[f64]) -> [f32; 4] {
    std::array::from_fn(|k| v[k] as f32)
}

fn make(dir: &Path, all: bool) -> Result<(), Anything> {
    std::fs::create_dir_all(dir)?;
    for (name, uri, frames, every, lost) in CASES {
        let mut sim = Sim::open(&SimSpec::parse(uri)?)?;
        let mut buf = FrameBuf::default();
        let mut dice = Dice(0x5eed);
        let (mut truth, mut seen) = (format!("{uri}\n"), String::new());
        for n in (0..*frames).step_by(*every as usize) {
            if dice.unit() * 100.0 < f64::from(*lost) {
                continue;
            }
            let head = format!("frame {:.6}\n", n as f64 / 30.0);
            truth.push_str(&head);
            seen.push_str(&head);
            let t = sim.frame(n, &mut buf)?;
            for o in &t.objects {
                let b = o.bbox;
                writeln!(
                    truth,
                    "{} {} {} {} {} {} {}",
                    o.track,
                    o.class.id(),
                    u8::from(o.ignore),
                    b.x0,
                    b.y0,
                    b.x1,
                    b.y1
                )?;
            }
            look(t, &mut dice, &mut seen)?;
        }
        let file = |kind: &str| dir.join(format!("{name}.{kind}"));
        std::fs::write(file("truth"), &truth)?;
        if all {
            std::fs::write(file("seen"), &seen)?;
            let tracks = follow(&read(&file("seen"))?)?;
            std::fs::write(file("tracks"), tracks)?;
            report(name, &score(&read(&file("truth"))?, &read(&file("tracks"))?)?);
        }
    }
    Ok(())
}

/// What an imagined detector sees: it misses 5 % of what is in plain sight and more of what is hidden, is unsure about
/// what it half sees, errs by some per cent of an object's size, and sees something where nothing is in every second
/// frame.
fn look(truth: &Truth, dice: &mut Dice, out: &mut String) -> Result<(), Anything> {
    for o in &truth.objects {
        let hidden = f64::from(1.0 - o.visibility);
        let faint = if o.ignore { 0.3 } else { 0.0 };
        let miss = 0.05 + 0.5 * hidden + faint;
        let score = (0.88 - 0.55 * hidden - faint + 0.10 * dice.normal()).clamp(0.02, 0.99);
        let b = [o.bbox.x0, o.bbox.y0, o.bbox.x1, o.bbox.y1].map(f64::from);
        let (w, h) = (b[2] - b[0], b[3] - b[1]);
        let e: [f64; 4] = std::array::from_fn(|k| 0.03 * dice.normal() * if k % 2 == 0 { w } else { h });
        if dice.unit() >= miss {
            line(out, o.class.id(), score, [b[0] + e[0], b[1] + e[1], b[2] + e[2], b[3] + e[3]])?;
        }
    }
    if dice.unit() < 0.5 {
        let (x, y) = (dice.unit() * 1200.0, 200.0 + dice.unit() * 450.0);
        let (w, h) = (12.0 + 70.0 * dice.unit(), 12.0 + 90.0 * dice.unit());
        line(out, (dice.unit() * 8.0) as usize, 0.1 + 0.6 * dice.unit(), [x, y, x + w, y + h])?;
    }
    Ok(())
}

fn line(out: &mut String, class: usize, score: f64, b: [f64; 4]) -> Result<(), Anything> {
    writeln!(out, "{class} {score:.4} {:.2} {:.2} {:.2} {:.2}", b[0], b[1], b[2], b[3])?;
    Ok(())
}

fn follow(seen: &Frames) -> Result<String, Anything> {
    let mut tracker = Tracker::new(TrackParams::default())?;
    let mut out = String::new();
    let mut spent = Duration::ZERO;
    for (time, lines) in seen {
        let seen =
            lines.iter().map(|v| Observation { class: v[0] as u32, score: v[1] as f32, bbox: bbox(&v[2..]) });
        let start = Instant::now();
        let tracks = tracker.update(seen, *time)?;
        spent += start.elapsed();
        writeln!(out, "frame {:.6}", time.as_secs_f64())?;
        for t in tracks.iter().filter(|t| t.state == TrackState::Confirmed) {
            let b = t.bbox;
            writeln!(out, "{} {} {:.2} {:.2} {:.2} {:.2}", t.id, t.class, b[0], b[1], b[2], b[3])?;
        }
    }
    eprintln!("{:.1} us an update", spent.as_secs_f64() * 1e6 / seen.len().max(1) as f64);
    Ok(out)
}

fn score(truth: &Frames, tracks: &Frames) -> Result<Scores, Anything> {
    if truth.len() != tracks.len() {
        return Err(format!("{} frames of truth, {} of tracks", truth.len(), tracks.len()).into());
    }
    let mut scorer = Scorer::new();
    for ((_, truth), (_, tracks)) in truth.iter().zip(tracks) {
        let actual: Vec<Actual> = truth
            .iter()
            .map(|v| Actual { id: v[0] as u64, class: v[1] as u32, ignore: v[2] != 0.0, bbox: bbox(&v[3..]) })
            .collect();
        let followed: Vec<Followed> = tracks
            .iter()
            .map(|v| Followed { id: v[0] as u64, class: v[1] as u32, bbox: bbox(&v[2..]) })
            .collect();
        scorer.add(&actual, &followed);
    }
    Ok(scorer.scores())
}

fn report(name: &str, s: &Scores) {
    println!(
        "{name:40} IDF1 {:.4}  HOTA {:.4} (DetA {:.4}, AssA {:.4})  MOTA {:.4}  switches {}, missed {}, false {}, of {}",
        s.idf1, s.hota, s.det_a, s.ass_a, s.mota, s.switches, s.misses, s.false_positives, s.objects
    );
}

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Twelve uniforms less six: close to normal, of variance 1.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}
