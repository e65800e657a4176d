use super::Exit;
use super::ui::{Stop, Ui};
use saltica::report::{Align, Table, number};
use saltica::session::image_shape;
use saltica::session::{CudaOptions, Precision};
use saltica::{Error, ErrorKind};
use saltica_core::Model;
use saltica_cuda::CudaBackend;
use saltica_models::passes::rebatch;
use serde::Serialize;
use std::path::PathBuf;

/// Measure which tile of each convolution is fastest on this GPU, and keep it for later runs
#[derive(clap::Args)]
pub(super) struct Args {
    /// ONNX file
    model: PathBuf,
    /// Pictures in one run; several are tuned in turn, one picture always first
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1")]
    batch: Vec<usize>,
    /// Size of the model's input, where its file leaves it open
    #[arg(long, value_name = "SIZE")]
    imgsz: Option<usize>,
    /// Compute in f32
    #[arg(long)]
    fp32: bool,
}

#[derive(Serialize)]
struct TuneRecord {
    model: String,
    batch: usize,
    steps: Vec<TunedRow>,
}

#[derive(Serialize)]
struct TunedRow {
    step: String,
    way: String,
    before_us: f64,
    after_us: f64,
}

pub(super) fn run(args: &Args, ui: &mut Ui) -> Result<Exit, Stop> {
    let precision = if args.fp32 { Precision::F32 } else { Precision::F16 };
    let gpu = CudaBackend::open(CudaOptions { precision, ..CudaOptions::default() }).map_err(Error::from)?;
    let mut batches = args.batch.clone();
    batches.retain(|b| *b != 1);
    batches.insert(0, 1);
    let load = |open: bool| -> Result<Model, Error> {
        let mut graph = saltica_models::onnx::load(&args.model).map_err(saltica_core::Error::from)?;
        if open {
            rebatch(&mut graph).map_err(saltica_core::Error::from)?;
        }
        Ok(Model::new(graph, &gpu, true)?)
    };
    let model = load(batches.len() > 1)?;
    for batch in batches {
        let shapes = model
            .inputs()
            .iter()
            .map(|port| image_shape(port, Some(batch), args.imgsz.map(|s| (s, s))))
            .collect::<Result<Vec<_>, Error>>()?;
        let bindings = model.bind(&shapes).map_err(Error::from)?;
        let found = gpu.tune(&model, &bindings).map_err(Error::from)?;
        if found.is_empty() {
            return Err(Error::new(
                ErrorKind::Model,
                "the model has no convolution that comes in several tiles",
            )
            .into());
        }
        let us = |d: std::time::Duration| d.as_secs_f64() * 1e6;
        let record = TuneRecord {
            model: args.model.display().to_string(),
            batch,
            steps: found
                .into_iter()
                .map(|s| TunedRow {
                    step: s.name,
                    way: s.label,
                    before_us: us(s.before),
                    after_us: us(s.after),
                })
                .collect(),
        };
        if ui.json {
            ui.record("tune", &record)?;
            continue;
        }
        let mut t = Table::new(&[
            ("step", Align::Left),
            ("fastest", Align::Left),
            ("us", Align::Right),
            ("before", Align::Right),
        ]);
        for s in &record.steps {
            t.row([s.step.clone(), s.way.clone(), number(s.after_us, 2), number(s.before_us, 2)]);
        }
        let sum = |of: fn(&TunedRow) -> f64| record.steps.iter().map(of).sum::<f64>();
        let total = format!(
            "batch {batch}: {} us in convolutions, {} before\n",
            number(sum(|s| s.after_us), 1),
            number(sum(|s| s.before_us), 1)
        );
        ui.text(&(t.render(ui.style) + &total))?;
    }
    Ok(Exit::Done)
}
