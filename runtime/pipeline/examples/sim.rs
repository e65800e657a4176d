//! Draws scenes of the simulated camera.
//!
//! `cargo run --release -p saltica-pipeline --example sim -- URI [--frames N] [--first N] [--step N]
//!  [--seeds N] [--rounds N] [--coco DIR] [--png FILE] [--hash]`
//!
//! `--hash` prints FNV-1a of each frame's pixels and of its truth: the same on every machine. Without any of these it
//! measures the frame rate on one core: draws the frames `--rounds` times and takes the least time of each, so that what
//! else a machine does weighs little; of `--seeds` seeds in turn.

use std::path::PathBuf;
use std::time::Instant;

use saltica_pipeline::source::sim::{CocoOptions, FrameBuf, Sim, SimSpec, Step, write_coco};

type Anything = Box<dyn std::error::Error>;

fn main() {
    if let Err(e) = run() {
        eprintln!("error: {e}");
        std::process::exit(2);
    }
}

fn run() -> Result<(), Anything> {
    let mut uri = "sim:street".to_string();
    let (mut options, mut seeds) = (CocoOptions { frames: 100, step: 29, ..CocoOptions::default() }, 1u64);
    let mut rounds = 3usize;
    let (mut coco, mut png): (Option<PathBuf>, Option<PathBuf>) = (None, None);
    let mut hash = false;
    let mut args = std::env::args().skip(1);
    while let Some(a) = args.next() {
        let mut value = || args.next().ok_or(format!("{a} needs a value"));
        match a.as_str() {
            "--frames" => options.frames = value()?.parse()?,
            "--first" => options.first = value()?.parse()?,
            "--step" => options.step = value()?.parse()?,
            "--rounds" => rounds = value()?.parse()?,
            "--seeds" => seeds = value()?.parse()?,
            "--coco" => coco = Some(value()?.into()),
            "--hash" => hash = true,
            "--png" => png = Some(value()?.into()),
            _ if a.starts_with("--") => return Err(format!("unknown option {a}").into()),
            _ => uri = a,
        }
    }
    let spec = SimSpec::parse(&uri)?;
    if let Some(dir) = coco {
        let mut specs = vec![spec.clone(); seeds as usize];
        for (k, s) in specs.iter_mut().enumerate() {
            s.seed += k as u64;
        }
        write_coco(&specs, &options, &dir, |step| match step {
            Step::Written(done, total) if done % 50 == 0 || done == total => eprint!("\r{done}/{total}"),
            _ => {}
        })?;
        eprintln!();
        return Ok(());
    }
    if let Some(path) = png {
        return picture(&spec, options.first, &path);
    }
    let numbers = (0..options.frames).map(|k| options.first + k * options.step.max(1));
    let mut slowest = f64::MAX;
    for k in 0..seeds {
        let spec = {
            let mut s = spec.clone();
            s.seed += k;
            s
        };
        if hash {
            hashes(&spec, numbers.clone())?;
        } else {
            slowest = slowest.min(rate(&spec, numbers.clone(), rounds)?);
        }
    }
    if !hash && seeds > 1 {
        println!("slowest of {seeds} seeds: {slowest:.1} fps");
    }
    Ok(())
}

/// Writes one frame as PNG and lists what is in it.
fn picture(spec: &SimSpec, n: u64, path: &PathBuf) -> Result<(), Anything> {
    let mut buf = FrameBuf::default();
    let mut sim = Sim::open(spec)?;
    for o in &sim.frame(n, &mut buf)?.objects {
        println!(
            "{:13} {:4.0} {:4.0} {:4.0} {:4.0} visible {:.2} track {} {}",
            o.class.name(),
            o.bbox.x0,
            o.bbox.y0,
            o.bbox.x1,
            o.bbox.y1,
            o.visibility,
            o.track,
            if o.ignore { "ignore" } else { "" }
        );
    }
    image::save_buffer(path, &buf.rgb, buf.width as u32, buf.height as u32, image::ColorType::Rgb8)?;
    Ok(())
}

fn hashes(spec: &SimSpec, numbers: impl Iterator<Item = u64>) -> Result<(), Anything> {
    let fnv = |h: u64, b: &u8| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3);
    let of = |bytes: &[u8]| bytes.iter().fold(0xcbf2_9ce4_8422_2325, fnv);
    let mut sim = Sim::open(spec)?;
    let mut buf = FrameBuf::default();
    for n in numbers {
        let truth = format!("{:?}", sim.frame(n, &mut buf)?);
        println!("seed {} frame {n} {:#018x} truth {:#018x}", spec.seed, of(&buf.rgb), of(truth.as_bytes()));
    }
    Ok(())
}

/// Prints how long frames take; returns frames per second.
fn rate(spec: &SimSpec, numbers: impl Iterator<Item = u64> + Clone, rounds: usize) -> Result<f64, Anything> {
    let started = Instant::now();
    let mut sim = Sim::open(spec)?;
    let opened = started.elapsed().as_secs_f64() * 1e3;
    let mut buf = FrameBuf::default();
    let mut times = vec![f64::MAX; numbers.clone().count()];
    for _ in 0..rounds.max(1) {
        for (n, least) in numbers.clone().zip(&mut times) {
            let t = Instant::now();
            sim.frame(n, &mut buf)?;
            *least = least.min(t.elapsed().as_secs_f64() * 1e3);
        }
    }
    let mean = times.iter().sum::<f64>() / times.len().max(1) as f64;
    times.sort_by(f64::total_cmp);
    println!(
        "{:?} seed {}: {:.1} fps, {mean:.2} ms a frame, median {:.2}, slowest {:.2}; opened in {opened:.0} ms",
        spec.scene,
        spec.seed,
        1e3 / mean,
        times[times.len() / 2],
        times[times.len() - 1],
    );
    Ok(1e3 / mean)
}
