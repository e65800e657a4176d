//! Draws scenes of the simulated camera.
//!
//! `cargo run --release -p saltica-pipeline --example sim -- URI [--frames N] [--first N] [--step N]
//!  [--seeds N] [--coco DIR] [--png FILE] [--hash]`
//!
//! `--hash` prints FNV-1a of each frame's pixels: the same on every machine. Without any of these it measures the frame rate on one core (by the wall clock, and by processor time).

use std::path::PathBuf;
use std::time::Instant;

use saltica_pipeline::source::sim::{CocoOptions, FrameBuf, Sim, SimSpec, write_coco};

type Anything = Box<dyn std::error::Error>;

fn main() {
    if let Err(e) = run() {
        eprintln!("error: {e}");
        std::process::exit(2);
    }
}

fn run() -> Result<(), Anything> {
    let mut uri = "sim:street".to_string();
    let (mut options, mut seeds) = (CocoOptions { frames: 300, ..CocoOptions::default() }, 1u64);
    let (mut coco, mut png): (Option<PathBuf>, Option<PathBuf>) = (None, None);
    let mut hash = false;
    let mut args = std::env::args().skip(1);
    while let Some(a) = args.next() {
        let mut value = || args.next().ok_or(format!("{a} needs a value"));
        match a.as_str() {
            "--frames" => options.frames = value()?.parse()?,
            "--first" => options.first = value()?.parse()?,
            "--step" => options.step = value()?.parse()?,
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
        write_coco(&specs, &options, &dir, |done, total| {
            if done % 50 == 0 || done == total {
                eprint!("\r{done}/{total}");
            }
        })?;
        eprintln!();
        return Ok(());
    }
    let started = Instant::now();
    let mut sim = Sim::open(&spec)?;
    eprintln!("opened in {:.0} ms", started.elapsed().as_secs_f64() * 1e3);
    let mut buf = FrameBuf::default();
    if let Some(path) = png {
        let truth = sim.frame(options.first, &mut buf)?;
        for o in &truth.objects {
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
        return Ok(());
    }
    if hash {
        for k in 0..options.frames {
            let n = options.first + k * options.step.max(1);
            sim.frame(n, &mut buf)?;
            let fnv = |h: u64, b: &u8| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3);
            println!("{n} {:#018x}", buf.rgb.iter().fold(0xcbf2_9ce4_8422_2325, fnv));
        }
        return Ok(());
    }
    sim.frame(options.first, &mut buf)?;
    let mut times = Vec::new();
    let busy = on_cpu();
    for k in 0..options.frames {
        let t = Instant::now();
        sim.frame(options.first + k * options.step.max(1), &mut buf)?;
        times.push(t.elapsed().as_secs_f64() * 1e3);
    }
    let mean = times.iter().sum::<f64>() / times.len().max(1) as f64;
    times.sort_by(f64::total_cmp);
    println!(
        "{} frames: {:.1} fps, mean {:.2} ms, median {:.2} ms, 99 % {:.2} ms",
        times.len(),
        1e3 / mean,
        mean,
        times[times.len() / 2],
        times[times.len() * 99 / 100]
    );
    if let (Some(a), Some(b)) = (busy, on_cpu()) {
        let ms = (b - a) / times.len().max(1) as f64;
        println!("processor time alone: {ms:.2} ms a frame, {:.1} fps on one core", 1e3 / ms);
    }
    Ok(())
}

/// Milliseconds this thread has spent on a processor: on a busy machine the fairer clock. Linux only.
fn on_cpu() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(text.split_whitespace().next()?.parse::<f64>().ok()? * 1e-6)
}
