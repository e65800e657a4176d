//! Every op's cases on every backend, each as a graph of one node through a session: passes, plan, kernel and executor.
//!
//! A case runs three times: with its first input fed and the others constants of the graph (as weights and shapes are in
//! files), with all inputs fed (shapes may then depend on values), and with everything constant (the passes fold it).

use libtest_mimic::{Arguments, Failed, Trial};
use saltica_core::{Session, SessionOptions};
use saltica_models::graph::ops::compare;
use saltica_models::graph::{Case, Op};
use saltica_tensor::Tensor;
use saltica_tests::backends::{self, Named};
use saltica_tests::{Result, build};
use std::collections::BTreeMap;
use std::process::ExitCode;

/// Cases that are not expected to pass: backend, form, op, case (`*` for any), and why. One that passes nevertheless is a
/// failure, so that this list only shrinks.
const IGNORED: &[(&str, &str, &str, &str, &str)] = &[];

/// How a case becomes a graph.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    FirstFed,
    AllFed,
    Constant,
}

const FORMS: [(&str, Form); 3] =
    [("first input fed", Form::FirstFed), ("all inputs fed", Form::AllFed), ("constant", Form::Constant)];

fn main() -> ExitCode {
    let args = Arguments::from_args();
    let backends = match backends::all() {
        Ok(backends) => backends,
        Err(e) => {
            eprintln!("no backends: {e}");
            return ExitCode::FAILURE;
        }
    };
    let mut by_op: BTreeMap<String, Vec<Case>> = BTreeMap::new();
    for case in Op::cases() {
        by_op.entry(case.op.name().to_string()).or_default().push(case);
    }
    let mut trials = Vec::new();
    for backend in &backends {
        for (form_name, form) in FORMS {
            for (op, cases) in &by_op {
                let ignored = |case: &&Case| reason(&backend.name, form_name, op, &case.name).is_some();
                let (skipped, run): (Vec<&Case>, Vec<&Case>) = cases.iter().partition(ignored);
                trials.push(expected(format!("{}/{form_name}/{op}", backend.name), backend, form, run));
                for case in skipped {
                    let why = reason(&backend.name, form_name, op, &case.name).unwrap_or_default();
                    let gone = check(backend, form, case).is_ok();
                    let message = format!("passes: take it from the list ({why})");
                    let name = format!("{}/{form_name}/{op}/{}", backend.name, case.name);
                    trials
                        .push(Trial::test(name, move || Err(Failed::from(message))).with_ignored_flag(!gone));
                }
            }
        }
    }
    libtest_mimic::run(&args, trials).exit_code()
}

fn reason(backend: &str, form: &str, op: &str, case: &str) -> Option<&'static str> {
    let matches = |pattern: &str, text: &str| match pattern.strip_suffix('*') {
        Some(start) => text.starts_with(start),
        None => pattern == text,
    };
    IGNORED
        .iter()
        .find(|(b, f, o, c, _)| matches(b, backend) && matches(f, form) && matches(o, op) && matches(c, case))
        .map(|entry| entry.4)
}

/// One test for all cases of an op; its message lists every one that fails.
fn expected(name: String, backend: &Named, form: Form, cases: Vec<&Case>) -> Trial {
    let (backend, cases): (Named, Vec<Case>) = (backend.clone(), cases.into_iter().cloned().collect());
    Trial::test(name, move || {
        let faults: Vec<String> = cases
            .iter()
            .filter_map(|c| check(&backend, form, c).err().map(|e| format!("{}: {e}", c.name)))
            .collect();
        if faults.is_empty() { Ok(()) } else { Err(Failed::from(faults.join("\n"))) }
    })
}

fn check(backend: &Named, form: Form, case: &Case) -> Result<()> {
    let first = case.inputs.iter().position(Option::is_some);
    let is_constant = |i: usize| match form {
        Form::FirstFed => Some(i) != first,
        Form::AllFed => false,
        Form::Constant => true,
    };
    let (graph, fed) = build::one_node(case, is_constant)?;
    let mut session = Session::from_graph(graph, backend.backend.clone(), SessionOptions::default())?;
    let fed: Vec<(&str, &Tensor)> = fed.iter().map(|(name, t)| (name.as_str(), t)).collect();
    // Twice: what the first run left in the arena must not show.
    for run in ["first", "second"] {
        let outputs = session.run(&fed).map_err(|e| format!("{run} run: {e}"))?;
        if outputs.len() != case.expected.len() {
            return Err(format!("{} outputs, {} expected", outputs.len(), case.expected.len()).into());
        }
        for (i, ((_, got), want)) in outputs.iter().zip(&case.expected).enumerate() {
            compare(&got.view(), want, case.tolerance).map_err(|e| format!("{run} run, output {i}: {e}"))?;
        }
    }
    Ok(())
}
