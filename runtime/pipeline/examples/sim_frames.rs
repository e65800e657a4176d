//! Streams chosen frames of simulated cameras, with their truth, to a program that trains or evaluates.
//!
//! `cargo run --release -p saltica-pipeline --example sim_frames -- [--hash] < LIST > STREAM`
//!
//! Each line of the list is `FRAME ADDRESS`, such as `90 sim:street?seed=7&light=dusk`; neighbouring lines with the same
//! address share one scene. Each answer is one line of JSON (`width`, `height`, `frame`, `light`, `objects`, and with
//! `--hash` the FNV-1a of the pixels) and then `width * height * 3` bytes of RGB. Boxes are `[x0, y0, x1, y1]` in pixels.

use std::io::{BufRead, Write};

use saltica_pipeline::source::sim::{FrameBuf, LightKind, Sim, SimSpec};
use serde::Serialize;

#[derive(Serialize)]
struct Header {
    width: usize,
    height: usize,
    frame: u64,
    light: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    fnv1a: Option<String>,
    objects: Vec<Object>,
}

#[derive(Serialize)]
struct Object {
    class: usize,
    bbox: [f32; 4],
    visibility: f32,
    truncation: f32,
    ignore: bool,
}

fn main() {
    if let Err(e) = run() {
        eprintln!("error: {e}");
        std::process::exit(2);
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let hash = std::env::args().skip(1).any(|a| a == "--hash");
    let mut out = std::io::BufWriter::with_capacity(1 << 20, std::io::stdout().lock());
    let mut open: Option<(String, Sim)> = None;
    let mut buf = FrameBuf::default();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let (frame, address) = line
            .split_once(' ')
            .and_then(|(n, a)| Some((n.parse().ok()?, a.trim())))
            .ok_or_else(|| format!("'{line}' is no frame of a camera: expected FRAME ADDRESS"))?;
        let (_, sim) = match open.take().filter(|(a, _)| a == address) {
            Some(same) => open.insert(same),
            None => open.insert((address.to_string(), Sim::open(&SimSpec::parse(address)?)?)),
        };
        let light = match sim.spec().light_kind() {
            LightKind::Dusk => "dusk",
            LightKind::Night => "night",
            _ => "day",
        };
        let truth = sim.frame(frame, &mut buf)?;
        let header = Header {
            width: buf.width,
            height: buf.height,
            frame,
            light,
            fnv1a: hash.then(|| format!("{:016x}", fnv1a(&buf.rgb))),
            objects: truth
                .objects
                .iter()
                .map(|o| Object {
                    class: o.class.id(),
                    bbox: [o.bbox.x0, o.bbox.y0, o.bbox.x1, o.bbox.y1],
                    visibility: o.visibility,
                    truncation: o.truncation,
                    ignore: o.ignore,
                })
                .collect(),
        };
        serde_json::to_writer(&mut out, &header)?;
        out.write_all(b"\n")?;
        out.write_all(&buf.rgb)?;
        out.flush()?;
    }
    Ok(())
}

/// FNV-1a, 64 bits: <http://www.isthe.com/chongo/tech/comp/fnv/>.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3))
}
