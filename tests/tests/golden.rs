//! Real graphs and models on the CPU backend against recorded outputs, by the tolerance of each part.
//!
//! With `SALTICA_VERBOSE` set, how far each part is off is printed also where it passes.

use libtest_mimic::Trial;
use saltica_core::{Session, SessionOptions};
use saltica_tensor::Tensor;
use saltica_tests::{Result, backends, compare, graphs, trial};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    saltica_tests::suite(trials)
}

fn trials(shared: &Path) -> Result<Vec<Trial>> {
    let mut trials: Vec<Trial> = graphs::names()?
        .into_iter()
        .map(|name| trial(format!("cpu/{name}"), move || golden(&name)))
        .collect();
    trials.push(trial("half precision stays near its float twin", half));
    let data = shared.join("data");
    trials.push(trial("yolox_nano on a photo", move || photo(&data)));
    Ok(trials)
}

fn verbose(text: impl Fn() -> String) {
    if std::env::var_os("SALTICA_VERBOSE").is_some() {
        println!("{}", text());
    }
}

fn session(name: &str) -> Result<Session> {
    Ok(Session::from_graph(graphs::load_filled(name)?, backends::cpu(2)?, SessionOptions::default())?)
}

fn run(session: &mut Session, case: &graphs::Case) -> Result<Vec<Tensor>> {
    let input = case.input.tensor()?;
    Ok(session.run(&[(&case.input.name, &input)])?.into_iter().map(|(_, t)| t).collect())
}

fn golden(name: &str) -> Result<()> {
    let mut session = session(name)?;
    for (i, case) in graphs::golden(name)?.cases.iter().enumerate() {
        for part in compare::check(name, i, &run(&mut session, case)?)? {
            verbose(|| format!("{name} case {i}: {part}"));
        }
    }
    Ok(())
}

/// Largest and mean absolute difference in rows `lo..hi` of two `[1, rows, n]` outputs, and the range of the second's.
fn rows(got: &Tensor, want: &Tensor, lo: usize, hi: usize) -> Result<(f64, f64, f64)> {
    let n = want.shape()[2];
    let (got, want) = (&got.as_slice::<f32>()?[lo * n..hi * n], &want.as_slice::<f32>()?[lo * n..hi * n]);
    let (mut max, mut sum) = (0f64, 0f64);
    for (g, w) in got.iter().zip(want) {
        let d = f64::from((g - w).abs());
        // A NaN is infinitely far away.
        max = max.max(if d.is_nan() { f64::INFINITY } else { d });
        sum += d;
    }
    let (lo, hi) = want.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(l, h), w| (l.min(*w), h.max(*w)));
    Ok((max, sum / want.len() as f64, f64::from(hi - lo)))
}

/// All 705,600 numbers, not only the recorded ones: scores by 1e-3 in the mean and 0.03 at most, boxes by 0.3 pixels in
/// the mean.
fn half() -> Result<()> {
    let case = &graphs::golden("yolov8n")?.cases[0];
    let (half, float) = (run(&mut session("yolov8n-fp16")?, case)?, run(&mut session("yolov8n")?, case)?);
    let (_, boxes, _) = rows(&half[0], &float[0], 0, 4)?;
    let (worst, scores, _) = rows(&half[0], &float[0], 4, 84)?;
    let found = format!("scores: mean {scores:.2e}, max {worst:.2e}; boxes: mean {boxes:.3} px");
    verbose(|| found.clone());
    if scores <= 1e-3 && worst <= 0.03 && boxes <= 0.3 { Ok(()) } else { Err(found.into()) }
}

/// The raw output of a trained model on a photo, against onnxruntime's: within 1e-4 of the range of each part.
fn photo(data: &Path) -> Result<()> {
    let picture = saltica::Image::open(data.join("golden/peds_0_letterbox416.png"))?;
    let (w, h) = (picture.width(), picture.height());
    // Planes in the order B, G, R, values 0 to 255.
    let plane = |c: usize| picture.data().iter().skip(2 - c).step_by(3).map(|v| f32::from(*v));
    let numbers: Vec<f32> = (0..3).flat_map(plane).collect();
    let input = Tensor::from_slice(&[1, 3, h, w], &numbers)?;
    let want = saltica::npy::read(&data.join("golden/yolox_nano_peds_0_output.npy"))?;
    let model = data.join("models/yolox_nano.onnx");
    let mut session = Session::load(&model, backends::cpu(2)?, SessionOptions::default())?;
    let name = session.model().inputs()[0].name.clone();
    let got = session.run(&[(&name, &input)])?.swap_remove(0).1;
    if got.shape() != want.shape() {
        return Err(format!("{} found, {} expected", got.shape(), want.shape()).into());
    }
    let turn = |t: &Tensor| -> Result<Tensor> {
        let [n, c] = [t.shape()[1], t.shape()[2]];
        let from = t.as_slice::<f32>()?;
        let turned: Vec<f32> = (0..n * c).map(|i| from[i % n * c + i / n]).collect();
        Ok(Tensor::from_slice(&[1, c, n], &turned)?)
    };
    let (got, want) = (turn(&got)?, turn(&want)?);
    for (part, lo, hi) in [("centres", 0, 2), ("sizes", 2, 4), ("objectness", 4, 5), ("classes", 5, 85)] {
        let (max, _, range) = rows(&got, &want, lo, hi)?;
        verbose(|| format!("{part}: max {max:.2e}, range {range:.3}"));
        if max > 1e-4 * range {
            return Err(format!("{part}: {max:.3e} off, at most 1e-4 of the range {range} expected").into());
        }
    }
    Ok(())
}
