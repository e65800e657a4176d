//! Prints the comparison of the batcher with other rules and with the optimum, all in virtual time:
//! `cargo run --release -p saltica-pipeline --example batch_table`.

use saltica_pipeline::batch::simulate::compare::{Row, all};

const FRAMES: usize = 2000;
const SMALL: usize = 80;
const SEED: u64 = 7;

fn main() -> saltica_pipeline::Result<()> {
    println!(
        "Goodput: frames answered in time, as parts of those that came. {FRAMES} frames a line, seed {SEED}."
    );
    println!(
        "Objective: multiples of one frame's run time. Load: of the largest b/t(b) of which two runs fit into it."
    );
    println!(
        "Rivals: best of a grid of settings, tuned on the line's own trace; a frame that no run could still answer"
    );
    println!(
        "in time is dropped by all. strict: the best rival when it drops, too, what its own batch would answer late."
    );
    println!(
        "optimum: the best schedule that knows the future (exact). orin: published run times; h200: measured.\n"
    );
    println!(
        "{:<5} {:<9} {:>4} {:>4} | {:>7} {:>7} {:>7} {:>7} {:>7} | {:>7} {:>7} | {:>6} {:>7} {:>7} | {:>5} {:>5}",
        "dev",
        "arrivals",
        "obj",
        "load",
        "batch 1",
        "fixed",
        "prefer",
        "aimd",
        "strict",
        "ours",
        "optimum",
        "/best",
        "/strict",
        "/optim",
        "p99",
        "batch"
    );
    let rows = all(FRAMES, SEED, true)?;
    for row in &rows {
        let [one, fixed, preferred, aimd] = row.rivals;
        let strict = row.strict.iter().copied().fold(0.0, f64::max);
        println!(
            "{:<5} {:<9} {:>4} {:>4} | {one:>7.4} {fixed:>7.4} {preferred:>7.4} {aimd:>7.4} {strict:>7.4} | {:>7.4} {:>7.4} | {:>6.3} {:>7.3} {:>7.3} | {:>5.2} {:>5.1}",
            row.device,
            row.arrivals,
            row.objective,
            row.load,
            row.ours,
            row.optimum,
            row.over_best(),
            row.over_strict(),
            row.of_optimum(),
            row.p99,
            row.batch
        );
    }
    println!();
    least("over the best rival", &rows, Row::over_best);
    least("over the best strict rival", &rows, Row::over_strict);
    least("of the optimum", &rows, Row::of_optimum);

    println!("Where batching pays, by load:");
    for load in [0.9, 1.0, 1.2, 1.5] {
        let knee: Vec<Row> = rows.iter().filter(|r| r.pays && r.load == load).cloned().collect();
        spread(&format!("  {load:>3}: over the best rival"), &knee, Row::over_best);
        spread("       over the best strict rival", &knee, Row::over_strict);
        spread("       the optimum over the best strict rival", &knee, |r| r.over_strict() / r.of_optimum());
    }
    let mut small = Vec::new();
    for seed in 0..20 {
        small.extend(all(SMALL, seed, false)?);
    }
    println!("Traces of {SMALL} frames, 20 seeds ({} traces):", small.len());
    spread("  of the optimum", &small, Row::of_optimum);
    let reached = small.iter().filter(|r| r.of_optimum() >= 0.95).count();
    println!("  at least 0.95 of it: {:.1} % of the traces", 100.0 * reached as f64 / small.len() as f64);

    let light: Vec<&Row> = rows.iter().filter(|r| r.load <= 0.9).collect();
    let kept = light.iter().filter(|r| 1.0 - r.ours <= 0.001).count();
    let possible = light.iter().filter(|r| 1.0 - r.optimum <= 0.001).count();
    println!(
        "Load up to 0.9 ({} lines): at most 0.1 % lost in {kept}; the optimum in {possible}.",
        light.len()
    );
    let late = light.iter().filter(|r| r.p99 > 1.0).count();
    println!("  p99 beyond the objective in {late}.");
    Ok(())
}

fn least(what: &str, rows: &[Row], value: impl Fn(&Row) -> f64) {
    if let Some(row) = rows.iter().min_by(|a, b| value(a).total_cmp(&value(b))) {
        let Row { device, arrivals, objective, load, .. } = row;
        println!(
            "Least {what}: {:.4} ({device}, {arrivals}, objective {objective}, load {load})",
            value(row)
        );
    }
}

fn spread(what: &str, rows: &[Row], value: impl Fn(&Row) -> f64) {
    let mut values: Vec<f64> = rows.iter().map(value).collect();
    values.sort_by(f64::total_cmp);
    let at = |part: f64| values[((values.len() - 1) as f64 * part) as usize];
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    println!("{what}: least {:.3}, median {:.3}, mean {mean:.3}, most {:.3}", at(0.0), at(0.5), at(1.0));
}
