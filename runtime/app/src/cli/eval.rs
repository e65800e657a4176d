use super::Exit;
use super::ui::{Stop, Ui};
use saltica::eval::{Dataset, Metrics, evaluate, read_detections};
use saltica::report::{Align, Style, Table, number};
use serde::Serialize;
use std::path::PathBuf;

/// Measure mean average precision on a COCO data set
#[derive(clap::Args)]
pub(super) struct Args {
    /// COCO annotation file (JSON)
    #[arg(long, value_name = "ANNOTATIONS.json")]
    coco: PathBuf,
    /// Score these detections (COCO results format, of any program)
    #[arg(long, value_name = "FILE.json")]
    detections: PathBuf,
}

#[derive(Serialize)]
struct EvalRecord<'a> {
    annotations: String,
    images: usize,
    objects: usize,
    detections: usize,
    #[serde(flatten)]
    metrics: &'a Metrics,
    warnings: &'a [String],
}

pub(super) fn run(args: &Args, ui: &mut Ui) -> Result<Exit, Stop> {
    let dataset = Dataset::read(&args.coco)?;
    for w in &dataset.warnings {
        ui.warn(&format!("{}: {w}", args.coco.display()));
    }
    let detections = read_detections(&args.detections)?;
    let metrics = evaluate(&dataset, &detections)?;
    let record = EvalRecord {
        annotations: args.coco.display().to_string(),
        images: dataset.images.len(),
        objects: dataset.annotations.iter().filter(|a| !a.crowd).count(),
        detections: detections.len(),
        metrics: &metrics,
        warnings: &dataset.warnings,
    };
    if ui.json {
        ui.record("eval", &record)?;
    } else {
        ui.text(&text(&record, ui.style))?;
    }
    Ok(Exit::Done)
}

fn text(r: &EvalRecord<'_>, style: Style) -> String {
    let m = r.metrics;
    let mut classes = Table::new(&[
        ("class", Align::Left),
        ("objects", Align::Right),
        ("found", Align::Right),
        ("AP50-95", Align::Right),
        ("AP50", Align::Right),
        ("AP75", Align::Right),
        ("AR", Align::Right),
    ]);
    for c in m.classes.iter().filter(|c| c.objects + c.detections > 0) {
        classes.row([
            c.name.clone(),
            c.objects.to_string(),
            c.detections.to_string(),
            number(c.ap, 4),
            number(c.ap50, 4),
            number(c.ap75, 4),
            number(c.ar100, 4),
        ]);
    }
    let mut all = Table::new(&[
        ("objects", Align::Left),
        ("mAP50-95", Align::Right),
        ("mAP50", Align::Right),
        ("mAP75", Align::Right),
        ("AR1", Align::Right),
        ("AR10", Align::Right),
        ("AR100", Align::Right),
    ]);
    all.row(
        ["all".to_owned()]
            .into_iter()
            .chain([m.ap, m.ap50, m.ap75, m.ar1, m.ar10, m.ar100].map(|v| number(v, 4))),
    );
    for (name, ap, ar) in [
        ("small", m.ap_small, m.ar_small),
        ("medium", m.ap_medium, m.ar_medium),
        ("large", m.ap_large, m.ar_large),
    ] {
        all.row([name, &number(ap, 4), "", "", "", "", &number(ar, 4)]);
    }
    format!(
        "{}\n{}\n{} images, {} objects, {} detections\n",
        classes.render(style),
        all.render(style),
        r.images,
        r.objects,
        r.detections
    )
}
