//! Plans of random graphs: whatever is turned into views, written in place or laid over bytes that are free again, the
//! outputs are those of the plain interpreter.

#![allow(clippy::unwrap_used)] // helpers of tests

use proptest::prelude::*;
use saltica_core::{Session, SessionOptions};
use saltica_models::graph::Graph;
use saltica_tensor::Tensor;
use saltica_tests::backends::{self, Named};
use saltica_tests::{random, recipe};
use std::sync::LazyLock;

static BACKENDS: LazyLock<Vec<Named>> = LazyLock::new(|| backends::all().unwrap());

/// Runs a graph twice (the first time on another input, whose values must not show) and returns the second outputs.
fn run(graph: &Graph, named: &Named, optimize: bool, inputs: [&Tensor; 2]) -> Vec<Tensor> {
    let options = SessionOptions { optimize, ..SessionOptions::default() };
    let mut session = Session::from_graph(graph.clone(), named.backend.clone(), options).unwrap();
    session.run(&[("x", inputs[0])]).unwrap();
    session.run(&[("x", inputs[1])]).unwrap().into_iter().map(|(_, t)| t).collect()
}

fn check(steps: &[(u8, u8, u8)]) -> Result<(), TestCaseError> {
    let graph = random::graph(steps).unwrap();
    let other = recipe::noise(1, &random::INPUT).unwrap();
    let input = recipe::noise(2, &random::INPUT).unwrap();
    let want = graph.evaluate(std::slice::from_ref(&input)).unwrap();
    for named in BACKENDS.iter() {
        for optimize in [false, true] {
            let got = run(&graph, named, optimize, [&other, &input]);
            prop_assert_eq!(got.len(), want.len());
            for (k, (got, want)) in got.iter().zip(&want).enumerate() {
                prop_assert_eq!(got.shape(), want.shape());
                let (got, want) = (got.as_slice::<f32>().unwrap(), want.as_slice::<f32>().unwrap());
                // The same kernels: the same numbers, up to sums that follow the layout.
                let relative = if named.name.starts_with("reference") && !optimize { 1e-6 } else { 1e-4 };
                let scale = want.iter().fold(1f32, |m, w| m.max(w.abs()));
                for (i, (g, w)) in got.iter().zip(want).enumerate() {
                    prop_assert!(
                        (g - w).abs() <= relative * scale,
                        "{}, optimize {optimize}, output {k}, element {i}: {g} found, {w} expected",
                        named.name
                    );
                }
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn outputs_are_the_interpreters(steps in prop::collection::vec(any::<(u8, u8, u8)>(), 1..24)) {
        check(&steps)?;
    }
}
