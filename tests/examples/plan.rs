//! Prints what a plan costs: `cargo run --release -p saltica-tests --example plan -- NAME|FILE`.
use saltica_core::{Model, Reference};
use saltica_models::passes::Bindings;
fn main() -> saltica_tests::Result<()> {
    for name in std::env::args().skip(1) {
        let graph = if name.ends_with(".onnx") {
            saltica_models::onnx::load(name.as_ref())?
        } else {
            saltica_tests::graphs::load_filled(&name)?
        };
        let backend = Reference { channels_last: true };
        let t = std::time::Instant::now();
        let model = Model::new(graph, &backend, true)?;
        let mut b = Bindings::new();
        for p in model.inputs() {
            println!("{p}");
            if let Some(d) = &p.dims {
                for x in d {
                    if let saltica_models::graph::Dim::Symbol(s) = x {
                        b = b.symbol(s, if s.contains("eigh") || s.contains("idth") { 640 } else { 1 });
                    }
                }
            }
        }
        let (plan, report) = match model.plan(&b, &backend) {
            Ok(p) => p,
            Err(e) => {
                println!("{name}: ERROR {e}");
                continue;
            }
        };
        println!("{name}: {:?} in {:?}\n{report}", plan.report, t.elapsed());
        println!("ratio {:.3}", plan.report.ratio());
        if std::env::var("STEPS").is_ok() {
            for s in &plan.steps {
                println!("{} {} {} {:?}", s.op, s.name, s.output.shape, s.io.outputs[0]);
            }
        }
    }
    Ok(())
}
