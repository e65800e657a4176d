//! Reference kernels also run in production, where a frame must cost no allocation.

use saltica_models::graph::{Fact, Op};
use saltica_tensor::Tensor;
use saltica_tests::memory::{Counting, measure};

/// Ops whose kernels do allocate, and why.
const EXEMPT: &[(&str, &str)] =
    &[("NonMaxSuppression", "sorts candidates, of which nothing bounds the count")];

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn reference_kernels_allocate_nothing() {
    let mut failures = Vec::new();
    for case in Op::cases() {
        let facts: Vec<_> = case.inputs.iter().map(|t| t.as_ref().map(Fact::of)).collect();
        let mut results: Vec<Tensor> = case
            .op
            .infer(&facts)
            .unwrap()
            .into_iter()
            .map(|o| Tensor::zeros(o.dtype, o.shape).unwrap())
            .collect();
        let views: Vec<_> = case.inputs.iter().map(|t| t.as_ref().map(Tensor::view)).collect();
        let mut outputs: Vec<_> = results.iter_mut().map(|t| t.view_mut().unwrap()).collect();
        let (outcome, usage) = measure(|| case.op.run(&views, &mut outputs));
        outcome.unwrap();
        if usage.allocations > 0 && !EXEMPT.iter().any(|(op, _)| *op == case.op.name()) {
            failures.push(format!("{} / {}: {} allocations", case.op.name(), case.name, usage.allocations));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
