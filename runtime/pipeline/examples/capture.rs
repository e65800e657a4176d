//! Shows what a source gives.
//!
//! `cargo run --release -p saltica-pipeline --example capture -- ADDRESS... [--frames N] [--seconds S] [--png FILE] [--quiet]`
//!
//! Prints a line for each frame: source, number, format, age, where its bytes lie, how often they were copied; then what
//! each source counted. `--png` writes the last frame. Without an address it lists this machine's cameras and the kinds of
//! addresses with their options.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use saltica_pipeline::frame::{SourceId, monotonic};
use saltica_pipeline::ring::Bell;
use saltica_pipeline::source::{KEYS, SCHEMES, SourceUri, Supervisor, v4l2};
use saltica_vision::Image;

type Anything = Box<dyn std::error::Error>;

fn main() {
    if let Err(e) = run() {
        eprintln!("error: {e}");
        std::process::exit(2);
    }
}

fn help() {
    println!("cameras:");
    for c in v4l2::cameras() {
        println!("  v4l2://{}  {}", c.path.display(), c.name);
    }
    println!("addresses:");
    for s in SCHEMES {
        println!("  {:8}{}", format!("{}:", s.name), s.help);
    }
    println!("options, behind '?':");
    for k in KEYS {
        let of = if k.schemes.is_empty() { String::new() } else { format!(" ({})", k.schemes.join(", ")) };
        println!("  {:10}{}: {}{of}", k.name, k.values, k.help);
    }
}

fn run() -> Result<(), Anything> {
    let (mut uris, mut frames, mut seconds) = (Vec::new(), u64::MAX, f64::INFINITY);
    let (mut png, mut quiet): (Option<PathBuf>, bool) = (None, false);
    let mut args = std::env::args().skip(1);
    while let Some(a) = args.next() {
        let mut value = || args.next().ok_or(format!("{a} needs a value"));
        match a.as_str() {
            "--frames" => frames = value()?.parse()?,
            "--seconds" => seconds = value()?.parse()?,
            "--png" => png = Some(value()?.into()),
            "--quiet" => quiet = true,
            _ if a.starts_with("--") => return Err(format!("unknown option {a}").into()),
            _ => uris.push(SourceUri::parse(&a)?),
        }
    }
    if uris.is_empty() {
        help();
        return Ok(());
    }
    let bell = Bell::new();
    let mut sources = Vec::new();
    for (i, uri) in uris.iter().enumerate() {
        sources.push(Supervisor::start(
            uri.source()?,
            SourceId(i as u32),
            uri.name(),
            uri.plan(),
            bell.clone(),
        )?);
    }
    let start = Instant::now();
    let (mut last, mut seen, mut ages) = (None, vec![0u64; sources.len()], Vec::new());
    let mut said = vec![None; sources.len()];
    loop {
        let rung = bell.count();
        let mut idle = true;
        for (i, s) in sources.iter().enumerate() {
            let status = s.status();
            if said[i] != Some(status.state) {
                said[i] = Some(status.state);
                let why = status.reason.map(|r| format!(": {r}")).unwrap_or_default();
                let how = status.opened.map(|o| format!(" [{}]", o.note)).unwrap_or_default();
                eprintln!("{:.3} {} is {}{why}{how}", start.elapsed().as_secs_f64(), s.name(), status.state);
            }
            while seen[i] < frames
                && let Some(f) = s.ring().try_pop()
            {
                idle = false;
                seen[i] += 1;
                let age = f.age(monotonic());
                ages.push(age);
                if !quiet {
                    println!(
                        "{} #{} seq {} {} captured {:.6} age {:.2} ms {} copies {}",
                        f.source,
                        f.id,
                        f.sequence,
                        f.format(),
                        f.captured.as_secs_f64(),
                        age.as_secs_f64() * 1e3,
                        f.memory().name(),
                        f.copies()
                    );
                }
                if png.is_some() {
                    last = Some(Image::from_pixels(&f.pixels()));
                }
            }
        }
        let done = |(s, n): (&Supervisor, &u64)| *n >= frames || (s.is_finished() && s.ring().is_empty());
        if sources.iter().zip(&seen).all(done) || start.elapsed().as_secs_f64() > seconds {
            break;
        }
        if idle {
            bell.wait(rung, Duration::from_millis(50));
        }
    }
    let wall = start.elapsed().as_secs_f64();
    for (s, n) in sources.into_iter().zip(&seen) {
        let (name, status) = (s.name().to_owned(), s.status());
        let c = s.counters();
        let drops: Vec<String> = c.drops().map(|(r, n)| format!("{r} {n}")).collect();
        println!(
            "{name}: {n} frames in {wall:.2} s ({:.1} fps), copies per frame {:.2}, opened {}, failures {}, stalls {}, drops: {}, {}{}",
            *n as f64 / wall,
            c.copies as f64 / c.frames.max(1) as f64,
            c.opened,
            c.failures,
            c.stalls,
            if drops.is_empty() { "none".into() } else { drops.join(", ") },
            status.state,
            status.reason.map(|r| format!(" ({r})")).unwrap_or_default()
        );
        if !s.stop() {
            eprintln!("{name} did not stop in time");
        }
    }
    ages.sort_unstable();
    if let (Some(middle), Some(most)) = (ages.get(ages.len() / 2), ages.last()) {
        println!(
            "age when taken: median {:.2} ms, most {:.2} ms",
            middle.as_secs_f64() * 1e3,
            most.as_secs_f64() * 1e3
        );
    }
    if let (Some(path), Some(image)) = (png, last) {
        image::save_buffer(
            path,
            image.data(),
            image.width() as u32,
            image.height() as u32,
            image::ColorType::Rgb8,
        )?;
    }
    Ok(())
}
